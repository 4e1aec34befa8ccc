"""The memory law for a list of cases: what would fit, without any environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tokenworks.engines.memory_cases import SizedCase, size_case
from tokenworks.engines.remedies import remedies
from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.model_reading import read_models
from tokenworks.facts.shipped_models import model_shapes

HEADINGS = (
    "case",
    "verdict",
    "weights GiB",
    "KV cache GiB",
    "tokens",
    "because (GiB)",
    "would fit with",
)


@dataclass(frozen=True)
class Answer:
    """One sized case, and what would make it fit; ``ways`` is empty where it does."""

    sized: SizedCase
    ways: tuple[str, ...] = ()


def size_cases(cases: Path, models: Path | None, *, look_for_ways: bool) -> list[Answer]:
    """Every case of a file, sized; a case that cannot be sized carries its error.

    Models of the user's own file win over those that are shipped.

    Raises:
        ConfigError: when a file cannot be read at all.
    """
    known = {**model_shapes(), **(read_models(models) if models is not None else {})}
    return [_answered(case, known, look_for_ways=look_for_ways) for case in _read(cases)]


def _answered(case: Any, known: Mapping[str, Mapping[str, Any]], *, look_for_ways: bool) -> Answer:
    sized = size_case(case, known)
    if not look_for_ways or sized.verdict is None:
        return Answer(sized)
    return Answer(sized, remedies(case, sized, known))


def _read(path: Path) -> Sequence[Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _refused(path, f"cannot be read as JSON ({error})") from error
    if isinstance(document, dict) and isinstance(document.get("cases"), list):
        document = document["cases"]
    if not isinstance(document, list):
        raise _refused(path, "is not a list of cases")
    return document


def _refused(path: Path, reason: str) -> ConfigError:
    remedy = "give a JSON list of cases, each with engine, model, gpu and gpu_count"
    return ConfigError([Problem(key="", file=path, reason=reason, remedy=remedy)])


def size_table(answers: Sequence[Answer]) -> Table:
    """Cases as a table for people."""
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for answer in answers:
        one = answer.sized
        table.add_row(
            one.id,
            one.verdict or "cannot tell",
            _figure(one.weights_gib_per_gpu),
            _figure(one.kv_cache_gib_per_gpu),
            "" if one.kv_cache_tokens is None else str(one.kv_cache_tokens),
            one.error or "; ".join(part for part in (one.because, one.note) if part),
            "; or ".join(answer.ways),
        )
    return table


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
