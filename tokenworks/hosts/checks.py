"""The gate's report as data: a check that failed is not a check that broke."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from tokenworks.errors import UndecidableError


class Outcome(enum.StrEnum):
    """How a check ended; ``broke`` means that it could not be told, which is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    BROKE = "broke"
    SKIPPED = "skipped"


class Check(BaseModel):
    """One check of the gate: what it measured, what it expected, and what to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    name: str
    outcome: Outcome
    measured: object = None
    expected: object = None
    message: str = ""


class Report(BaseModel):
    """What ``templates/hosts/host_gate.py`` writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str
    exit_status: int
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a host is good (exit status 0), bad (1), or could not be judged (3)."""

    exit_status: int
    failed: tuple[Check, ...]
    broke: tuple[Check, ...]


def read_report(text: str) -> Report:
    """Return the report; raises ``UndecidableError`` for what is none."""
    try:
        return Report.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        raise UndecidableError(
            f"the gate's report cannot be read: {error}; see: journalctl -u tokenworks-gate"
        ) from error


def judge(report: Report) -> Verdict:
    """Return the verdict; a report without checks judges nothing."""
    failed = tuple(c for c in report.checks if c.outcome is Outcome.FAILED)
    broke = tuple(c for c in report.checks if c.outcome is Outcome.BROKE)
    status = 1 if failed else 3 if broke or not report.checks else 0
    return Verdict(exit_status=status, failed=failed, broke=broke)
