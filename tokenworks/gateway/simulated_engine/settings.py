"""How a simulated engine behaves, and changing that while it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

TOKENS_PER_BLOCK = 32
"""TensorRT-LLM's ``tokens_per_block``: the prefix cache shares whole blocks only."""


class Fault(Enum):
    """What goes wrong with a request that asks for tokens."""

    NONE = "none"
    UNAVAILABLE = "unavailable"
    """503, as an engine answers whose executor has ended."""
    ERROR = "error"
    """500 with the engine's own error body."""
    RESET = "reset"
    """The connection is reset before a byte of an answer."""
    HANG = "hang"
    """No answer ever; the connection stays open."""
    CUT = "cut"
    """The connection ends in the middle of the answer, after ``fault_after_tokens``."""
    STALL = "stall"
    """The answer stops after ``fault_after_tokens``; the connection stays open."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set; times in seconds.

    A request waits while ``max_batch_size`` others run. Its first token comes after
    ``first_token_seconds`` and ``prefill_seconds_per_1000_tokens`` for what no cached prefix
    covers, each further one after ``inter_token_seconds``.
    """

    first_token_seconds: float = 0.05
    prefill_seconds_per_1000_tokens: float = 0.0
    inter_token_seconds: float = 0.01
    output_tokens: int = 16
    """Unless the request allows fewer, or asks for its maximum with ``ignore_eos``."""
    max_batch_size: int = 64
    kv_cache_blocks: int = 4096
    """Blocks of 32 tokens; also how many the prefix cache remembers."""
    healthy: bool = True
    """What ``/health`` says; requests are served all the same."""
    uses_cache_salt: bool = True
    """False is the defect of sgl-project/sglang#23300: a salt is accepted and changes nothing."""
    fault: Fault = Fault.NONE
    fault_share: float = 1.0
    """The share of requests that the fault meets, evenly spread."""
    fault_requests: int | None = None
    """How many requests it still meets; None is all."""
    fault_after_tokens: int = 2
    keep_alive_seconds: float = 5.0
    """When an idle connection is closed; the engine's own value (TIMEOUT_KEEP_ALIVE)."""
    recorded_requests: int = 1000
    """How many requests the control port can show; the oldest go first."""

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """These settings with some replaced, as JSON or a command line gives them.

        Raises:
            ValueError: a name or value is wrong; says which and what is allowed.
        """
        known = {field.name: field for field in dataclasses.fields(self)}
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise ValueError(f"{unknown[0]}: no such setting; there are {', '.join(sorted(known))}")
        checked = {name: _checked(name, getattr(self, name), changes[name]) for name in changes}
        return dataclasses.replace(self, **checked)

    def record(self) -> dict[str, Any]:
        """The settings as JSON gives them."""
        values = dataclasses.asdict(self)
        return {**values, "fault": self.fault.value}


def _checked(name: str, current: object, value: Any) -> Any:
    if name == "fault":
        return _fault(value)
    if name == "fault_requests" and value is None:
        return None
    if isinstance(current, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{name}: {value!r} is neither true nor false")
        return value
    whole = isinstance(current, int) or name == "fault_requests"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise ValueError(f"{name}: {value!r} is no {'whole ' if whole else ''}number")
    least = 1 if name in ("max_batch_size", "output_tokens", "kv_cache_blocks") else 0
    if not least <= value < float("inf") or (name == "fault_share" and value > 1):
        raise ValueError(f"{name}: {value!r} is out of range")
    return value if whole else float(value)


def _fault(value: object) -> Fault:
    try:
        return Fault(value)
    except ValueError:
        names = ", ".join(each.value for each in Fault)
        raise ValueError(f"fault: {value!r} is none of {names}") from None
