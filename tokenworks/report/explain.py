"""The chain of reasons for one value of a plan: why, and what that rests on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tokenworks.engines.replica_memory import MemoryBudget
from tokenworks.errors import ConfigError, Problem
from tokenworks.plan.types import Decided, Plan
from tokenworks.sizing.memory import GIB

NAMED = ("name", "model", "pool")
"""Fields by which the parts of a list are called in a key, such as ``models.qwen3-32b``."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One link of a chain: how deep it lies, its key, its value, and why it is so."""

    depth: int
    key: str
    value: str
    because: str

    def __str__(self) -> str:
        """One line, indented by depth."""
        because = f": {self.because}" if self.because else ""
        return f"{'  ' * self.depth}{self.key} = {self.value}{because}"


def explain(plan: Plan, key: str) -> tuple[Reason, ...]:
    """Why a value of the plan is what it is, and why what it rests on is.

    ``key`` is a path such as ``models.qwen3-32b.replicas``; ``models[1].replicas`` works as well.

    Raises:
        ConfigError: there is no such value; it names the nearest ones.
    """
    return tuple(_chain(plan, _path(plan, key), 0, set()))


def _chain(plan: Plan, key: str, depth: int, told: set[str]) -> Iterator[Reason]:
    """One value and what it rests on; what was ``told`` before is named and not told again."""
    value = _find(plan, key)
    again = key in told
    told.add(key)
    if isinstance(value, Decided):
        because = "as above" if again else value.because
        yield Reason(depth=depth, key=key, value=_short(value.value), because=because)
        for name in () if again else value.rests_on:
            yield from _chain(plan, _relative(key, name), depth + 1, told)
        return
    if isinstance(value, MemoryBudget):
        because = "as above" if again else ""
        yield Reason(depth=depth, key=key, value=_memory(value), because=because)
        yield from () if again else _memory_rows(value, depth + 1)
        return
    yield Reason(depth=depth, key=key, value=_short(value), because="")
    for child, decided in _decisions(value):
        yield Reason(
            depth=depth + 1,
            key=f"{key}.{child}",
            value=_short(decided.value),
            because=decided.because,
        )


def _memory_rows(memory: MemoryBudget, depth: int) -> Iterator[Reason]:
    for name, size, because in memory.rows():
        yield Reason(depth=depth, key=name, value=f"{size / GIB:.2f} GiB", because=because)
    for bound in memory.bounds:
        yield Reason(depth=depth, key="safe end", value="of a bound", because=bound)


def _memory(memory: MemoryBudget) -> str:
    return (
        f"{memory.kv_cache_tokens} tokens of KV cache, {memory.sequences} sequences of "
        f"{memory.max_model_len_tokens}"
    )


def _decisions(part: Any) -> Iterable[tuple[str, Decided[Any]]]:
    if is_dataclass(part):
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, Decided):
                yield field.name, value


def _relative(key: str, name: str) -> str:
    """A key that a decision rests on: from the root with ``/``, else from its own model."""
    if name.startswith("/"):
        return name[1:]
    owner = key.split(".")[:2] if key.startswith("models.") else key.split(".")[:1]
    return ".".join([*owner, name])


def _path(plan: Plan, key: str) -> str:
    """A key with every list index replaced by the name at that place."""
    parts = [part for part in re.split(r"[.\[\]]+", key) if part]
    spelt: list[str] = []
    at: Any = plan
    for part in parts:
        at = _step(at, part)
        if at is None:
            raise _unknown(plan, key)
        spelt.append(_name(at) if part.isdigit() else part)
    if not spelt:
        raise _unknown(plan, key)
    return ".".join(spelt)


def _find(plan: Plan, key: str) -> Any:
    at: Any = plan
    for part in key.split("."):
        at = _step(at.value if isinstance(at, Decided) else at, part)
    return at


def _step(at: Any, part: str) -> Any:
    if isinstance(at, Decided):
        at = at.value
    if isinstance(at, tuple):
        named = (one for one in at if _name(one) == part)
        index = int(part) if part.isdigit() and int(part) < len(at) else None
        return at[index] if index is not None else next(named, None)
    if isinstance(at, Mapping):
        return at.get(part)
    return getattr(at, part, None) if part in _names(at) else None


def _name(part: Any) -> str:
    return next((str(getattr(part, name)) for name in NAMED if hasattr(part, name)), "")


def _names(at: Any) -> list[str]:
    return [field.name for field in fields(at)] if is_dataclass(at) else []


def _unknown(plan: Plan, key: str) -> ConfigError:
    known = list(keys(plan))
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.3)
    remedy = f"use one such as {', '.join(near or known[:3])}"
    return ConfigError([Problem(key=key, reason="is no value of this plan", remedy=remedy)])


def keys(part: Any, prefix: str = "") -> Iterator[str]:
    """Every key of a plan under which a decision stands."""
    if isinstance(part, Decided):
        yield prefix
    elif isinstance(part, tuple):
        for one in part:
            yield from keys(one, f"{prefix}.{_name(one)}")
    elif is_dataclass(part):
        for field in fields(part):
            value = getattr(part, field.name)
            yield from keys(value, f"{prefix}.{field.name}" if prefix else field.name)


def _short(value: Any) -> str:
    if is_dataclass(value):
        return ", ".join(f"{f.name} {_short(getattr(value, f.name))}" for f in fields(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(child)}" for name, child in value.items())
    if isinstance(value, tuple):
        return " to ".join(_short(child) for child in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
