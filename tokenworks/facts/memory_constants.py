"""What engines take beside weights and KV cache: fitted constants, each with its evidence.

``memory_constants.json`` is written by ``python -m benchmarks.fit_memory``, which states the logs
it used; nothing here is set by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One fitted figure: its value, the spread of what it was fitted to, and where it holds."""

    value: float
    lowest: float
    highest: float
    n: int
    unit: str
    range: str
    source: str
    cases: tuple[str, ...] = ()

    @property
    def evidence(self) -> str:
        """What the figure rests on, in words: where it holds, and logs or what else states it."""
        if not self.cases:
            return f"{self.range}: {self.source}"
        logs = "one log" if self.n == 1 else f"{self.n} logs"
        return f"fitted to {logs}: {self.range}"


Constants = Mapping[str, Constant]


@cache
def constants() -> Constants:
    """Every shipped constant, by name."""
    text = resources.files(__package__).joinpath("memory_constants.json").read_text("utf-8")
    return {
        name: Constant(**{**fields, "cases": tuple(fields["cases"])})
        for name, fields in json.loads(text).items()
    }
