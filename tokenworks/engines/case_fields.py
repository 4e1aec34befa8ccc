"""Fields of a case, each read with the refusal that fits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenworks.errors import ConfigError, Problem


def refused(key: str, given: object, reason: str, remedy: str) -> ConfigError:
    """One refusal about a case."""
    return ConfigError([Problem(key=key, given=str(given), reason=reason, remedy=remedy)])


def text(case: Mapping[str, Any], key: str) -> str | None:
    """A word, or None."""
    given = case.get(key)
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise refused(key, repr(given), "is not text", "give a text or leave it out")
    return given


def count(case: Mapping[str, Any], key: str) -> int | None:
    """A whole number above 0, or None."""
    given = case.get(key)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or given != int(given):
        raise refused(key, repr(given), "is not a whole number", "give a whole number above 0")
    if not 0 < given < 10**9:
        raise refused(key, given, "is not a sensible count", "give a whole number above 0")
    return int(given)


def fraction(case: Mapping[str, Any]) -> float | None:
    """The share of memory that is asked for, or None."""
    given = case.get("memory_fraction")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise refused("memory_fraction", repr(given), "is not a share", "give one above 0, up to 1")
    return float(given)


def size_gib(gpu: Mapping[str, Any], key: str) -> float | None:
    """A size in GiB above 0, or None."""
    given = gpu.get(key)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 10**5:
        raise refused(f"gpu.{key}", repr(given), "is not a size in GiB", "give GiB above 0")
    return float(given)
