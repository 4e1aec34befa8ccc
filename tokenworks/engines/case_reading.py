"""What a case asks of the memory law, and all that it may mean where it leaves something open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tokenworks.engines.case_fields import count, refused, size_gib, text
from tokenworks.engines.law import Version, check_split, parse_version
from tokenworks.facts.cards import Card, possible_cards, sizes
from tokenworks.facts.first_releases import first_release
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.quantization import (
    CONTAINER,
    KV_BYTES,
    NONE,
    NVFP4,
    Scheme,
    is_container,
    is_unquantised,
    scheme,
)
from tokenworks.sizing.memory.weights import LEAST_UNPACKED, parameters

RELEASES: Mapping[str, tuple[Version, ...]] = {
    "vllm": (
        (0, 11, 0),
        (0, 6, 6),
        (0, 7, 3),
        (0, 8, 5),
        (0, 10, 2),
        (0, 17, 0),
        (0, 21, 0),
        (0, 33, 0),
    ),
    "sglang": ((0, 5, 23), (0, 2, 0), (0, 4, 9), (0, 5, 9)),
    "tensorrt_llm": ((0, 20, 0), (0, 6, 0), (1, 0, 0), (1, 2, 0)),
}
"""One release of each kind that the laws tell apart, the one for the best estimate first: what a
case without a version may have run."""

LEAST_TOKENS = 16
LONGEST_TOKENS = 1_048_576
"""Assumed where nothing says how long a model's context is; the longest of the known ones."""

T = TypeVar("T")

FITTED_LENGTHS = ("auto", -1)
"""vLLM's words for a length that it fits to the memory (pull request 29431)."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Parallelism of one start; ``attention`` is the part of ``tensor`` that divides attention."""

    tensor: int
    pipeline: int
    data: int
    gpus: int | None
    attention: int | None = None

    @property
    def ranks(self) -> int:
        """GPUs that the parallelism needs."""
        return self.tensor * self.pipeline * self.data

    @property
    def missing_gpus(self) -> bool:
        """Whether there are fewer GPUs than ranks."""
        return self.gpus is not None and self.ranks > self.gpus


@dataclass(frozen=True, kw_only=True)
class Options(Generic[T]):
    """Everything that one part of a case may mean, the best estimate first.

    ``because`` says what was assumed; None where the case leaves nothing open.
    """

    each: tuple[T, ...]
    because: str | None = None


def read_engine(case: Mapping[str, Any], engines: Iterable[str]) -> str:
    """The engine of a case, by the word that laws use for it.

    Raises:
        ConfigError: when it is none of ``engines``.
    """
    word = str(case.get("engine") or "").lower().strip()
    engine = re.sub(r"[- ]", "_", word).replace("trtllm", "tensorrt_llm")
    engine = "tensorrt_llm" if engine in ("tensorrt", "trt_llm") else engine
    if engine not in engines:
        remedy = f"use one of {', '.join(engines)}"
        raise refused("engine", word or "nothing", "is an engine without a memory law", remedy)
    return engine


def read_model(case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> ModelConfig:
    """The shape of the model that a case names.

    Raises:
        ConfigError: when none is named, or its shape is unknown or not understood.
    """
    name = text(case, "model")
    if name is None:
        remedy = "name the model and give its config.json with --models"
        raise refused("model", "nothing", "is named", remedy)
    known = name if name in models else _same_name(name, models)
    if known is None:
        remedy = "give its config.json with --models"
        raise refused("model", name, "is a model whose shapes are unknown", remedy)
    record = models[known]
    if not isinstance(record, Mapping):
        raise refused("model", name, "is not an object of fields", "give its config.json")
    return read_document(name, record)


def _same_name(name: str, models: Mapping[str, Any]) -> str | None:
    """The model of the same name but for case and for what stands in brackets."""
    plain = re.sub(r"\s*\(.*\)$", "", name).casefold()
    return next((known for known in models if known.casefold() == plain), None)


def read_splits(case: Mapping[str, Any], config: ModelConfig, engine: str) -> Options[Split]:
    """Every parallelism that a case may mean.

    Raises:
        ConfigError: when the one that it states does not divide the model.
    """
    gpus, tensor = count(case, "gpu_count"), count(case, "tensor_parallel")
    pipeline, data = count(case, "pipeline_parallel") or 1, count(case, "data_parallel") or 1
    plain = Split(tensor=tensor or 1, pipeline=pipeline, data=data, gpus=gpus)
    check_split(config, plain.tensor)
    if tensor is not None:
        return Options(each=tuple(_within(plain, engine)))
    if gpus is None:
        because = "tensor_parallel and gpu_count are not given, so one GPU is taken"
        return Options(each=(plain,), because=because)
    whole = gpus // (pipeline * data)
    if whole <= 1:
        return Options(each=(plain,))
    wide = Split(tensor=whole, pipeline=pipeline, data=data, gpus=gpus)
    divides = config.attention_heads % whole == 0
    because = f"tensor_parallel is not given for {gpus} GPUs, so that it may be 1, its default"
    return Options(each=(plain, wide) if divides else (plain,), because=because)


def _within(plain: Split, engine: str) -> Iterable[Split]:
    """Data parallelism: beside tensor parallelism in vLLM, of attention within it in the others."""
    divides = plain.data > 1 and plain.tensor % plain.data == 0
    if engine == "vllm" or not divides or (plain.gpus is not None and not plain.missing_gpus):
        yield plain
    if engine != "vllm" and divides and (plain.gpus is None or plain.missing_gpus):
        attention = plain.tensor // plain.data
        yield Split(
            tensor=plain.tensor,
            pipeline=plain.pipeline,
            data=1,
            gpus=plain.gpus,
            attention=attention,
        )


def read_versions(
    case: Mapping[str, Any], config: ModelConfig, engine: str
) -> Options[Version | None]:
    """Every kind of release that a case may mean: from the first that serves its model."""
    stated = text(case, "engine_version")
    version = parse_version(stated)
    if version is not None:
        return Options(each=(version,))
    first = first_release(engine, config.repository) or min(RELEASES[engine])
    later = [release for release in RELEASES[engine] if release >= first]
    later = [*later, first]
    least, most = ".".join(map(str, min(later))), ".".join(map(str, max(later)))
    given = "engine_version is not given" if stated is None else f"{stated} names no release"
    return Options(each=tuple(dict.fromkeys(later)), because=f"{given}: {least} to {most} is taken")


def read_cards(case: Mapping[str, Any]) -> Options[Card]:
    """Every card that a case may mean; one of assumed size with its lowest.

    Raises:
        ConfigError: when nothing says how much memory there is.
    """
    gpu = case.get("gpu") or {}
    if isinstance(gpu, str):
        gpu = {"name": gpu}
    if not isinstance(gpu, Mapping):
        raise refused("gpu", repr(gpu), "is not an object", "give name and memory_gib")
    memory, total = size_gib(gpu, "memory_gib"), size_gib(gpu, "reported_total_gib")
    found = possible_cards(text(gpu, "name"), memory, total, count(case, "gpu_count"))
    ends = tuple(end for card in found for end in card.ends)
    if len(found) > 1:
        return Options(each=ends, because=f"gpu: {found[0].name} is sold with {sizes(found)}")
    if len(ends) > 1:
        because = f"gpu: of {found[0].name} only the catalogue size is known"
        return Options(each=ends, because=because)
    return Options(each=ends)


def read_schemes(case: Mapping[str, Any], config: ModelConfig) -> Options[Scheme]:
    """Every format that the weights may have, the widest last.

    Raises:
        ConfigError: when the words name none that is known.
    """
    found = _scheme(case, config)
    if found.highest is None:
        return Options(each=found.ends)
    because = f"quantization {found.name} leaves open how many bits a weight takes"
    return Options(each=found.ends, because=because)


def _scheme(case: Mapping[str, Any], config: ModelConfig) -> Scheme:
    """The format of the weights: as the case says, else the name, else the model's own."""
    asked = text(case, "quantization")
    if asked is not None and not is_unquantised(asked):
        found = scheme(asked) or scheme(config.repository) or scheme(config.quantization)
        if found is None and is_container(asked):
            return CONTAINER
        if found is None:
            remedy = "use a word such as fp8, awq, gptq, w8a8, nvfp4 or mxfp4"
            raise refused("quantization", asked, "is a format whose size is unknown", remedy)
        return found
    named = scheme(config.repository)
    if named is not None:
        return named
    if re.search(r"quanti[sz]ed", config.repository.lower()):
        return CONTAINER
    return _own_scheme(config)


def _own_scheme(config: ModelConfig) -> Scheme:
    stated = scheme(config.quantization)
    if stated is NVFP4 and not _packed(config):
        return NONE
    if stated is None and is_container(config.quantization) and _packed(config):
        return NVFP4
    return stated or NONE


def _packed(config: ModelConfig) -> bool:
    """Whether a published total counts packed weights, as 4-bit checkpoints do."""
    total = config.total_parameters
    if total is None or not config.shapes_complete:
        return False
    return total < LEAST_UNPACKED * parameters(config).total


def read_lengths(case: Mapping[str, Any], config: ModelConfig, engine: str) -> Options[int | None]:
    """The longest sequence in tokens, None for the model's own."""
    given = case.get("max_model_len")
    if given in FITTED_LENGTHS:
        return Options(each=(LEAST_TOKENS,), because="max_model_len is fitted to the memory")
    if given is not None:
        return Options(each=(count(case, "max_model_len"),))
    if engine == "sglang":
        return Options(each=(None,))
    own = config.max_position_embeddings
    if own is not None:
        because = f"max_model_len is not given: the model's own {own} is taken"
        return Options(each=(None,), because=because)
    because = f"max_model_len is not given, nor is the model's own known: up to {LONGEST_TOKENS}"
    return Options(each=(None, LONGEST_TOKENS), because=because)


def read_cache_dtype(case: Mapping[str, Any]) -> str | None:
    """The data type of the KV cache; None for the checkpoint's own.

    Raises:
        ConfigError: when its size is not known.
    """
    given = text(case, "kv_cache_dtype")
    if given is None or given.lower() == "auto":
        computed = text(case, "dtype")
        plain = None if computed is None else cache_word(computed)
        return None if case.get("quantization") or plain not in KV_BYTES else plain
    word = cache_word(given)
    if word is None:
        remedy = f"use one of {', '.join(KV_BYTES)}"
        raise refused("kv_cache_dtype", given, "is a data type whose size is unknown", remedy)
    return word


CACHE_WORDS = (
    (r"nvfp4|fp4", "nvfp4"),
    (r"fp8|float8|e4m3|e5m2", "fp8"),
    (r"bf16|bfloat16", "bfloat16"),
    (r"fp16|float16|half", "float16"),
    (r"fp32|float32", "float32"),
    (r"int8", "int8"),
)


def cache_word(given: str) -> str | None:
    """The data type that some words name, as ``KV_BYTES`` spells it; None where they name none."""
    said = re.sub(r"_ds_mla$|_inc$", "", given.lower().replace("torch.", ""))
    if said in KV_BYTES:
        return said
    return next((w for pattern, w in CACHE_WORDS if re.match(rf"({pattern})(\b|_)", said)), None)


def notes(options: Sequence[Options[Any]]) -> list[str]:
    """What was assumed, in the order of the parts."""
    return [each.because for each in options if each.because is not None]
