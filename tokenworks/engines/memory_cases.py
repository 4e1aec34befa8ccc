"""One case of a start, as a plain record, through the memory law of its engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenworks.engines import sglang, tensorrt_llm_law, vllm
from tokenworks.engines.case_fields import count, fraction, refused, size_gib, text
from tokenworks.engines.law import (
    Budget,
    Verdict,
    Workload,
    check_split,
    parse_version,
)
from tokenworks.errors import ConfigError
from tokenworks.facts.cards import Card, ambiguity, possible_cards
from tokenworks.facts.memory_constants import Constants, constants
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.quantization import KV_BYTES, NONE, NVFP4, Scheme, is_container, scheme
from tokenworks.sizing.memory.kv import element_bytes
from tokenworks.sizing.memory.weights import (
    GIB,
    LEAST_UNPACKED,
    loaded_beside_weights,
    parameters,
    weight_bytes_per_gpu,
)

Law = Callable[[Workload, Constants], Budget]

LAWS: dict[str, Law] = {
    "vllm": vllm.budget,
    "sglang": sglang.budget,
    "tensorrt_llm": tensorrt_llm_law.budget,
}
"""Engines by the word that cases use for them."""


@dataclass(frozen=True, kw_only=True)
class SizedCase:
    """What the law says of one case; sizes in GiB on one GPU, None where it cannot say."""

    id: str
    weights_gib_per_gpu: float | None = None
    kv_cache_gib_per_gpu: float | None = None
    kv_cache_tokens: int | None = None
    verdict: str | None = None
    error: str | None = None
    because: str = ""

    def record(self) -> dict[str, Any]:
        """The case as JSON data; ``error`` only where there is one."""
        fields = {
            "id": self.id,
            "weights_gib_per_gpu": self.weights_gib_per_gpu,
            "kv_cache_gib_per_gpu": self.kv_cache_gib_per_gpu,
            "kv_cache_tokens": self.kv_cache_tokens,
            "verdict": self.verdict,
        }
        return fields if self.error is None else {**fields, "error": self.error}


def size_case(
    case: Any, known_models: Mapping[str, Mapping[str, Any]], known: Constants | None = None
) -> SizedCase:
    """What the law says of one case; never raises for what is in the case."""
    if not isinstance(case, Mapping):
        return SizedCase(id="", error=f"case: {case!r} is not an object; give one for each case.")
    name = str(case.get("id") or "")
    try:
        return _sized(name, case, known_models, constants() if known is None else known)
    except ConfigError as error:
        return SizedCase(id=name, error=str(error.problems[0]))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        why = f"case: holds a value that is not understood ({error}); compare it with a known one."
        return SizedCase(id=name, error=why)


def _sized(
    name: str, case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], known: Constants
) -> SizedCase:
    law = _law(case)
    config = read_model(case, models)
    split = _split(case)
    found = _scheme(case, config)
    tensor, pipeline = split.tensor or 1, split.pipeline
    check_split(config, tensor)
    weights = _weights(case, config, split, found)
    partial = SizedCase(id=name, weights_gib_per_gpu=round(weights / GIB, 4))
    try:
        cards = _cards(case)
    except ConfigError as error:
        return replace(partial, error=str(error.problems[0]))
    work = Workload(
        config=config,
        scheme=found,
        card=cards[0],
        weight_bytes=weights,
        kv_cache_bytes=element_bytes(_own_cache(config, found), _kv_dtype(case)),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        version=parse_version(text(case, "engine_version")),
        max_model_len=count(case, "max_model_len"),
        max_num_seqs=count(case, "max_num_seqs"),
        max_num_batched_tokens=count(case, "max_num_batched_tokens"),
        memory_fraction=fraction(case),
    )
    each = [
        _answer(partial, case, sized_for, split, law(sized_for, known))
        for sized_for in (replace(work, card=card) for card in cards)
    ]
    return _agreed(partial, cards, each)


def _agreed(partial: SizedCase, cards: Sequence[Card], each: Sequence[SizedCase]) -> SizedCase:
    """One answer for all cards that a case may mean: a verdict only where all give the same."""
    if len(cards) == 1:
        return each[0]
    verdicts = {one.verdict for one in each}
    if cards[0].lowest_gib is not None:
        ends = "its physical memory is not known, only its catalogue size"
        same = each[0] if len(verdicts) == 1 else replace(each[0], verdict=None)
        return same if same.verdict else replace(same, error=f"gpu: {cards[0].name}: {ends}.")
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    ends = "the verdict is that of each" if verdict else "give gpu.memory_gib for a verdict"
    return replace(partial, verdict=verdict, error=f"{ambiguity(cards)}; {ends}.")


@dataclass(frozen=True)
class _Split:
    """Parallelism as far as a case states it; ``tensor`` None where it must be guessed."""

    tensor: int | None
    pipeline: int
    data: int
    gpus: int | None

    @property
    def ranks(self) -> int:
        """GPUs that the parallelism needs."""
        return (self.tensor or 1) * self.pipeline * self.data

    @property
    def missing_gpus(self) -> bool:
        """Whether there are fewer GPUs than ranks."""
        return self.gpus is not None and self.ranks > self.gpus


def _answer(
    partial: SizedCase, case: Mapping[str, Any], work: Workload, split: _Split, budget: Budget
) -> SizedCase:
    sized = replace(
        partial,
        weights_gib_per_gpu=round(budget.weight_bytes / GIB, 4),
        kv_cache_gib_per_gpu=round(budget.kv_cache_bytes / GIB, 4),
        kv_cache_tokens=None if work.config.unknown else budget.kv_cache_tokens,
        because="; ".join(f"{r.part} {r.size_bytes / GIB:.2f}" for r in budget.rows),
    )
    if split.missing_gpus:
        return replace(sized, verdict=Verdict.DOES_NOT_FIT.value, error=_too_few(split))
    unsure = [*_about_budget(work, split, budget), *budget.doubts, *_about_case(case, work)]
    proven = budget.verdict
    bounded = work.config.tokens_bounded and unsure == [_bound_of_token(work)]
    fits_by_bound = proven is Verdict.FITS and bounded
    if (
        (proven is Verdict.FITS and not fits_by_bound)
        or _overfull(split, proven)
        or _length_assumed(work, budget)
    ):
        proven = None
    if not unsure:
        return replace(sized, verdict=budget.verdict.value if budget.verdict else None)
    if proven and not work.config.unknown:
        because = f"{sized.because}; whatever else holds: {unsure[0]}"
        return replace(sized, verdict=proven.value, because=because)
    if split.tensor is None and unsure[0] == _unsplit(split):
        sized = SizedCase(id=partial.id)
    ends = "the verdict is that of a bound" if proven else "no verdict can be given"
    error = f"{unsure[0]}; {ends}."
    return replace(sized, verdict=proven.value if proven else None, error=error)


def _bound_of_token(work: Workload) -> str:
    """What is said of a model whose tokens are not understood; with a bound where there is one."""
    if not work.config.unknown:
        return ""
    what = f"{work.config.unknown[0]} is not understood"
    if work.config.tokens_bounded:
        return f"{what}, so that a token takes at most what full attention would"
    return f"{what}, so a token's bytes are unknown"


def _too_few(split: _Split) -> str:
    return (
        f"gpu_count: {split.gpus} is less than the {split.ranks} GPUs of the parallelism asked "
        "for; use fewer ranks or more GPUs."
    )


def _about_budget(work: Workload, split: _Split, budget: Budget) -> Iterable[str]:
    """What leaves the budget itself open."""
    if (split.tensor is None and split.gpus is not None) or _overfull(split, budget.verdict):
        yield _unsplit(split)
    if work.config.unknown:
        yield _bound_of_token(work)
    if work.length is None:
        yield "max_model_len is not given, and the model's own length is not known"
    if _length_assumed(work, budget):
        yield (
            f"max_model_len is not given, and the cache holds less than the {work.length} tokens "
            "that the model was trained for"
        )


def _about_case(case: Mapping[str, Any], work: Workload) -> Iterable[str]:
    """What a case itself says that no budget can know."""
    if case.get("contended") is True:
        yield "other processes hold memory on this GPU, and how much is not stated"
    if not work.scheme.exact:
        yield f"quantization {work.scheme.name} leaves open how many bits a weight takes"


def _length_assumed(work: Workload, budget: Budget) -> bool:
    """Whether only a length that nobody asked for makes the cache too small."""
    small = budget.verdict is Verdict.KV_TOO_SMALL and budget.kv_cache_bytes > 0
    return small and work.max_model_len is None


def _overfull(split: _Split, verdict: Verdict | None) -> bool:
    """Whether one GPU, taken where no number is given, is plainly not what was used."""
    return split.tensor is None and verdict is Verdict.DOES_NOT_FIT


def _unsplit(split: _Split) -> str:
    gpus = "several" if split.gpus is None else str(split.gpus)
    return f"tensor_parallel is not given for {gpus} GPUs"


def _law(case: Mapping[str, Any]) -> Law:
    engine = str(case.get("engine") or "").lower().replace("-", "_")
    if engine not in LAWS:
        remedy = f"use one of {', '.join(LAWS)}"
        raise refused("engine", engine or "nothing", "is an engine without a memory law", remedy)
    return LAWS[engine]


def read_model(case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> ModelConfig:
    """The shape of the model that a case names.

    Raises:
        ConfigError: when none is named, or its shape is unknown or not understood.
    """
    name = text(case, "model")
    if name is None:
        remedy = "name the model and give its config.json with --models"
        raise refused("model", "nothing", "is named", remedy)
    if name not in models:
        remedy = "give its config.json with --models"
        raise refused("model", name, "is a model whose shapes are unknown", remedy)
    record = models[name]
    if not isinstance(record, Mapping):
        raise refused("model", name, "is not an object of fields", "give its config.json")
    return read_document(name, record)


def _split(case: Mapping[str, Any]) -> _Split:
    gpus, tensor = count(case, "gpu_count"), count(case, "tensor_parallel")
    pipeline, data = count(case, "pipeline_parallel") or 1, count(case, "data_parallel") or 1
    if tensor is None and gpus is not None and gpus == pipeline * data:
        tensor = 1
    return _Split(tensor=tensor, pipeline=pipeline, data=data, gpus=gpus)


def _cards(case: Mapping[str, Any]) -> tuple[Card, ...]:
    """Every card that the case may mean; one of assumed size with its lowest and highest."""
    gpu = case.get("gpu") or {}
    if not isinstance(gpu, Mapping):
        raise refused("gpu", repr(gpu), "is not an object", "give name and memory_gib")
    sizes = size_gib(gpu, "memory_gib"), size_gib(gpu, "reported_total_gib")
    found = possible_cards(text(gpu, "name"), *sizes)
    first = found[0]
    if first.lowest_gib is None:
        return found
    highest = float(first.catalogue_gb)
    return first, replace(first, total_gib=first.lowest_gib), replace(first, total_gib=highest)


def _kv_dtype(case: Mapping[str, Any]) -> str | None:
    given = text(case, "kv_cache_dtype")
    if given in (None, "auto"):
        dtype = text(case, "dtype")
        return None if dtype in (None, "auto", "half") or dtype not in KV_BYTES else _plain(case)
    word = re.sub(r"_ds_mla$|_inc$", "", str(given).lower().replace("torch.", ""))
    if word not in KV_BYTES:
        remedy = f"use one of {', '.join(KV_BYTES)}"
        raise refused("kv_cache_dtype", given, "is a data type whose size is unknown", remedy)
    return word


def _own_cache(config: ModelConfig, found: Scheme) -> ModelConfig:
    """The model without the cache format of its checkpoint, where another checkpoint is served."""
    stated = scheme(config.quantization)
    return config if stated is None or stated is found else replace(config, kv_cache_dtype=None)


def _plain(case: Mapping[str, Any]) -> str | None:
    """What ``auto`` means: the data type that the model computes in, if the case gives one."""
    return None if case.get("quantization") else text(case, "dtype")


def _scheme(case: Mapping[str, Any], config: ModelConfig) -> Scheme:
    """The format of the weights: as the case says, else the name, else the model's own."""
    asked = text(case, "quantization")
    if asked is not None and asked.lower() != "none":
        found = scheme(asked) or scheme(config.repository) or scheme(config.quantization)
        if found is None:
            remedy = "use a word such as fp8, awq, gptq, w8a8, nvfp4 or mxfp4"
            raise refused("quantization", asked, "is a format whose size is unknown", remedy)
        return found
    named = scheme(config.repository)
    if named is not None:
        return named
    if re.search(r"quanti[sz]ed", config.repository):
        remedy = "say in quantization how"
        raise refused("model", config.repository, "is quantised in a way it does not say", remedy)
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


def _weights(case: Mapping[str, Any], config: ModelConfig, split: _Split, found: Scheme) -> float:
    tensor, pipeline = split.tensor or 1, split.pipeline
    version = parse_version(text(case, "engine_version"))
    of_vllm = case.get("engine") == "vllm"
    padded = not of_vllm or (version is not None and version >= vllm.FIRST_PADDED_SLICES)
    try:
        size = float(
            weight_bytes_per_gpu(
                config, tensor, found, pipeline, split.data if of_vllm else 1, slices_padded=padded
            )
        )
    except ValueError as error:
        reason = "is a model of which neither all shapes nor total_parameters are known"
        remedy = "give its config.json with --models"
        raise refused("model", config.repository, reason, remedy) from error
    if str(case.get("engine")).startswith("tensorrt"):
        return size
    return size + loaded_beside_weights(config, tensor, found, pipeline)
