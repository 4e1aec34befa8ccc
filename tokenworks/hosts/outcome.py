"""How a run of Ansible ended, host by host; pure, from its events and its final count.

Ansible's own exit code is not enough: no host matched is a success to it, and a run that was cut
off has no count at all. A host is good only if it is counted, and counted as good.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final


class Outcome(enum.StrEnum):
    """What became of one host."""

    SAME = "same"
    CHANGED = "changed"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    NOT_PROCESSED = "not processed"
    CUT_OFF = "cut off"

    @property
    def good(self) -> bool:
        """Whether everything was done that was to be done."""
        return self in (Outcome.SAME, Outcome.CHANGED)


class Ending(enum.StrEnum):
    """How the run as a whole ended."""

    COMPLETE = "complete"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class HostResult:
    """One host's result: what failed, why, what to do, and what roles reported of it."""

    host: str
    outcome: Outcome
    changed_tasks: int = 0
    task: str = ""
    message: str = ""
    remedy: str = ""
    report: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """All hosts of a run, in the order in which they were asked for."""

    ending: Ending
    hosts: tuple[HostResult, ...]

    @property
    def good(self) -> bool:
        """Whether every host that was asked for is good."""
        return self.ending is Ending.COMPLETE and all(host.outcome.good for host in self.hosts)


REPORT: Final = "tokenworks"
"""Key of a task's result that is kept of a host: what differs, what was seen, what was measured."""
DONE: Final = "host_done"
"""Fact that says that a host's turn is over."""
_MESSAGE_LENGTH: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What events told of one host: its last task, what failed, what was reported."""

    task: str = ""
    failed_task: str = ""
    message: str = ""
    report: Mapping[str, Any]


def judge(
    expected: Iterable[str],
    ending: Ending,
    counts: Mapping[str, Mapping[str, int]] | None,
    seen: Mapping[str, Seen],
    said: str = "",
    *,
    changes: bool = False,
) -> RunResult:
    """Return each expected host's result.

    ``counts`` is Ansible's final count, by kind and host, None where there was none; ``said`` is
    what Ansible printed beside its events, such as a playbook that does not parse. With ``changes``
    a host for which changes were planned is good only once its turn is over: a failure in one
    failure domain keeps the next from its turn, and Ansible counts that as good.
    """
    nothing = Seen(report={})
    hosts = tuple(_host(name, ending, counts, seen.get(name, nothing), said) for name in expected)
    if changes:
        hosts = tuple(_waiting(host) if _has_not_had_its_turn(host) else host for host in hosts)
    if ending is Ending.COMPLETE and counts is None:
        ending = Ending.BROKEN
    return RunResult(ending=ending, hosts=hosts)


def _has_not_had_its_turn(host: HostResult) -> bool:
    planned = (host.report.get("changes") or {}).get("steps")
    return host.outcome.good and bool(planned) and not host.report.get(DONE)


def _waiting(host: HostResult) -> HostResult:
    return replace(
        host,
        outcome=Outcome.NOT_PROCESSED,
        message="its turn did not come, since a host before it failed",
        remedy="correct what failed there and run it again",
    )


def _host(
    name: str,
    ending: Ending,
    counts: Mapping[str, Mapping[str, int]] | None,
    seen: Seen,
    said: str,
) -> HostResult:
    outcome = _outcome(name, ending, counts, seen)
    message, remedy = _words(outcome, ending, counts, seen, said)
    return HostResult(
        host=name,
        outcome=outcome,
        changed_tasks=(counts or {}).get("changed", {}).get(name, 0),
        task=seen.failed_task or ("" if outcome.good else seen.task),
        message=message[-_MESSAGE_LENGTH:],
        remedy=remedy,
        report=seen.report,
    )


def _outcome(
    name: str, ending: Ending, counts: Mapping[str, Mapping[str, int]] | None, seen: Seen
) -> Outcome:
    if counts is None:
        return _uncounted(ending, seen)
    if counts.get("dark", {}).get(name):
        return Outcome.UNREACHABLE
    if counts.get("failures", {}).get(name):
        return Outcome.FAILED
    if not counts.get("processed", {}).get(name):
        return Outcome.NOT_PROCESSED
    return Outcome.CHANGED if counts.get("changed", {}).get(name) else Outcome.SAME


def _uncounted(ending: Ending, seen: Seen) -> Outcome:
    if ending in (Ending.TIMEOUT, Ending.CANCELLED):
        return Outcome.CUT_OFF
    if seen.failed_task:
        return Outcome.FAILED
    return Outcome.CUT_OFF if seen.task else Outcome.NOT_PROCESSED


def _words(
    outcome: Outcome,
    ending: Ending,
    counts: Mapping[str, Mapping[str, int]] | None,
    seen: Seen,
    said: str,
) -> tuple[str, str]:
    """What is said of a host that is not good, and what to do."""
    if outcome is Outcome.UNREACHABLE:
        return seen.message or "SSH does not answer", (
            "log in by hand with the user, key and jump host of the environment's ssh section"
        )
    if outcome is Outcome.FAILED:
        return seen.message, "correct what the message names and run it again; a repeat is safe"
    if outcome is Outcome.NOT_PROCESSED:
        whole = counts is not None and not counts.get("processed")
        why = "Ansible matched no host" if whole else said or "Ansible never came to this host"
        return why, "run it again; if it stays, correct what is said here"
    if outcome is Outcome.CUT_OFF:
        why = {
            Ending.TIMEOUT: "the time for the run was over",
            Ending.CANCELLED: "the run was cancelled",
        }.get(ending, f"Ansible ended without its final count: {said}")
        return why, (
            "look at the host with `tokenworks hosts check`: what it was doing may still be going "
            "on; then run it again, which finishes what was begun"
        )
    return "", ""
