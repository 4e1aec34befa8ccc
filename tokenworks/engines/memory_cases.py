"""One case of a start, as a plain record, through the memory law of its engine.

What a case leaves open is tried in every way that it may mean; the verdict is the worst of them,
the figures are the best estimate. ``docs/decisions/memory-verdicts.md`` says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenworks.engines import case_reading as reading
from tokenworks.engines import sglang, tensorrt_llm_law, vllm
from tokenworks.engines.case_fields import count, fraction, refused
from tokenworks.engines.case_reading import Options, Split
from tokenworks.engines.law import SEVERITY, Budget, Verdict, Version, Workload, worst
from tokenworks.errors import ConfigError
from tokenworks.facts.cards import Card
from tokenworks.facts.memory_constants import Constants, constants
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.quantization import Scheme, scheme
from tokenworks.sizing.memory.kv import element_bytes
from tokenworks.sizing.memory.weights import GIB, loaded_beside_weights, weight_bytes_per_gpu

Law = Callable[[Workload, Constants], Budget]

LAWS: dict[str, Law] = {
    "vllm": vllm.budget,
    "sglang": sglang.budget,
    "tensorrt_llm": tensorrt_llm_law.budget,
}
"""Engines by the word that cases use for them."""


@dataclass(frozen=True, kw_only=True)
class SizedCase:
    """What the law says of one case; sizes in GiB on one GPU, None where it cannot say.

    ``error`` says why there is no verdict; ``note`` what a verdict rests on that the case does not
    state. ``work`` is what the law was asked at the safe end, from which plans are made.
    """

    id: str
    weights_gib_per_gpu: float | None = None
    kv_cache_gib_per_gpu: float | None = None
    kv_cache_tokens: int | None = None
    verdict: str | None = None
    error: str | None = None
    note: str | None = None
    because: str = ""
    work: Workload | None = None

    def record(self) -> dict[str, Any]:
        """The case as JSON data; ``error`` and ``note`` only where there is one."""
        fields: dict[str, Any] = {
            "id": self.id,
            "weights_gib_per_gpu": self.weights_gib_per_gpu,
            "kv_cache_gib_per_gpu": self.kv_cache_gib_per_gpu,
            "kv_cache_tokens": self.kv_cache_tokens,
            "verdict": self.verdict,
        }
        said = {"error": self.error, "note": self.note}
        return {**fields, **{key: words for key, words in said.items() if words is not None}}


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
    except Exception as error:  # one bad case must not cost the answers of others
        why = f"case: holds a value that is not understood ({error}); compare it with a known one."
        return SizedCase(id=name, error=why)


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A case as the law is asked it: what is fixed, and what may be one of several."""

    engine: str
    config: ModelConfig
    plain: Workload
    splits: Options[Split]
    schemes: Options[Scheme]
    versions: Options[Version | None]
    lengths: Options[int | None]
    cards: Options[Card]

    @property
    def assumed(self) -> list[str]:
        """What the case leaves open, in words."""
        parts = (self.splits, self.schemes, self.versions, self.lengths, self.cards)
        return reading.notes(parts)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One way in which a case may be meant, and what the law says of it."""

    work: Workload
    split: Split
    budget: Budget


def _sized(
    name: str, case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], known: Constants
) -> SizedCase:
    engine = reading.read_engine(case, LAWS)
    config = reading.read_model(case, models)
    splits = reading.read_splits(case, config, engine)
    schemes = reading.read_schemes(case, config)
    versions = reading.read_versions(case, config, engine)
    first = splits.each[0]
    weights = _weights(engine, config, first, schemes.each[0], versions.each[0])
    partial = SizedCase(id=name, weights_gib_per_gpu=round(weights / GIB, 4))
    try:
        cards = reading.read_cards(case)
    except ConfigError as error:
        return replace(partial, error=str(error.problems[0]))
    question = _Question(
        engine=engine,
        config=config,
        plain=_plain(case, config, schemes.each[0], cards.each[0]),
        splits=splits,
        schemes=schemes,
        versions=versions,
        lengths=reading.read_lengths(case, config, engine),
        cards=cards,
    )
    return _answer(partial, question, known)


def _plain(case: Mapping[str, Any], config: ModelConfig, found: Scheme, card: Card) -> Workload:
    """What of a case is the same whichever way it is meant."""
    return Workload(
        config=config,
        scheme=found,
        card=card,
        weight_bytes=0.0,
        kv_cache_bytes=element_bytes(_own_cache(config, found), reading.read_cache_dtype(case)),
        max_num_seqs=count(case, "max_num_seqs"),
        max_num_batched_tokens=count(case, "max_num_batched_tokens"),
        memory_fraction=fraction(case),
        contended=case.get("contended") is True,
    )


def _own_cache(config: ModelConfig, found: Scheme) -> ModelConfig:
    """The model without the cache format of its checkpoint, where another checkpoint is served."""
    stated = scheme(config.quantization)
    return config if stated is None or stated is found else replace(config, kv_cache_dtype=None)


def _runs(question: _Question, known: Constants) -> Iterator[_Run]:
    """The law for every way in which a case may be meant, the best estimate first."""
    each = itertools.product(
        question.splits.each,
        question.schemes.each,
        question.versions.each,
        question.lengths.each,
        question.cards.each,
    )
    for split, found, version, length, card in each:
        work = replace(
            question.plain,
            scheme=found,
            card=card,
            version=version,
            max_model_len=length,
            tensor_parallel=split.tensor,
            pipeline_parallel=split.pipeline,
            attention_parallel=split.attention,
            weight_bytes=_weights(question.engine, question.config, split, found, version),
        )
        yield _Run(work=work, split=split, budget=LAWS[question.engine](work, known))


def _answer(partial: SizedCase, question: _Question, known: Constants) -> SizedCase:
    runs = list(_runs(question, known))
    shown = _shown(runs)
    budget = shown.budget
    sized = replace(
        partial,
        weights_gib_per_gpu=round(budget.weight_bytes / GIB, 4),
        kv_cache_gib_per_gpu=round(budget.kv_cache_bytes / GIB, 4),
        kv_cache_tokens=None if question.config.unknown else budget.kv_cache_tokens,
        because="; ".join(f"{r.part} {r.size_bytes / GIB:.2f}" for r in budget.rows),
        work=runs[-1].work,
    )
    if all(run.split.missing_gpus for run in runs):
        note = _too_few(shown.split)
        return replace(sized, verdict=Verdict.DOES_NOT_FIT.value, note=note)
    verdict = worst(run.budget.verdict for run in runs)
    return replace(sized, verdict=verdict.value, note=_note(question, runs, verdict))


def _shown(runs: list[_Run]) -> _Run:
    """The run whose figures are given: of a parallelism that was guessed, one that can load."""
    loads = (run for run in runs if run.budget.estimate is not Verdict.DOES_NOT_FIT)
    return runs[0] if len({run.split for run in runs}) == 1 else next(loads, runs[0])


def _note(question: _Question, runs: list[_Run], verdict: Verdict) -> str | None:
    """What a verdict rests on that the case does not state, and which end of it is given."""
    safe = next(run.budget for run in runs if run.budget.verdict is verdict)
    said = [*question.assumed, *_about_tokens(question.config), *safe.doubts]
    if not said:
        return None
    best = min((run.budget.estimate for run in runs), key=SEVERITY.index)
    if best is verdict:
        ends = "the verdict is the same over all of that"
    else:
        ends = f"the verdict is that of the safe end, at the other it would be {best.value}"
    return f"{'; '.join(said)}; {ends}."


def _about_tokens(config: ModelConfig) -> list[str]:
    """What is said of a model whose tokens are not understood."""
    if not config.unknown:
        return []
    what = f"{config.unknown[0]} is not understood"
    return [f"{what}, so that a token takes at most what full attention would"]


def _too_few(split: Split) -> str:
    return (
        f"gpu_count: {split.gpus} is less than the {split.ranks} GPUs of the parallelism asked "
        "for; use fewer ranks or more GPUs."
    )


def _weights(
    engine: str, config: ModelConfig, split: Split, found: Scheme, version: Version | None
) -> float:
    of_vllm = engine == "vllm"
    padded = not of_vllm or (version is not None and version >= vllm.FIRST_PADDED_SLICES)
    try:
        size = float(
            weight_bytes_per_gpu(
                config,
                split.tensor,
                found,
                split.pipeline,
                split.data if of_vllm else 1,
                slices_padded=padded,
                attention_parallel=split.attention,
            )
        )
    except ValueError as error:
        reason = "is a model of which neither all shapes nor total_parameters are known"
        remedy = "give its config.json with --models"
        raise refused("model", config.repository, reason, remedy) from error
    if engine == "tensorrt_llm":
        return size
    return size + loaded_beside_weights(config, split.tensor, found, split.pipeline)
