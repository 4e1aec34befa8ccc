"""Errors that people can act on: where, what was given, why it is refused, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class TokenworksError(Exception):
    """Something was refused or failed; the message ends with what to do about it."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One bad value: its key path, what was given, why that is refused, and the remedy."""

    key: str
    reason: str
    remedy: str
    given: str | None = None
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        """One line: where, what was given, why it is refused, what to do."""
        place = f"{self.file}:{self.line}: " if self.file and self.line else ""
        place = place or (f"{self.file}: " if self.file else "")
        key = f"{self.key}: " if self.key else ""
        given = f"{self.given} " if self.given is not None else ""
        return f"{place}{key}{given}{self.reason}; {self.remedy}."


class ConfigError(TokenworksError):
    """Everything that is wrong with what people wrote, all at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class OperationError(TokenworksError):
    """A tool or the world failed: what was tried, what came back, what to do next."""

    def __init__(self, what: str, *, reason: str, remedy: str) -> None:
        self.what, self.reason, self.remedy = what, reason, remedy
        super().__init__(f"{what}: {reason}; {remedy}.")


class UndecidableError(TokenworksError):
    """A check could not run, which is never a pass (exit code 3)."""
