"""What a rule is, and what it says when a resource breaks it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from policy.estate import ALONE, Estate
from policy.resources import UNKNOWN, Resource, Value

_LONGEST_VALUE_SHOWN: Final = 160


class Verdict(enum.StrEnum):
    """Whether a resource breaks a rule, or nobody can tell; a warning alone refuses nothing."""

    FAIL = "fail"
    UNDETERMINABLE = "undeterminable"
    WARN = "warn"


class Severity(enum.StrEnum):
    """How bad a violation is, in the words of reports."""

    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Family(enum.StrEnum):
    """Rules that run as one policy of the pack.

    The pack's SDK decodes each resource again for every policy, about 1 ms for a Deployment, so
    that forty policies would cost 56 ms per resource (measured with pulumi-policy 1.21).
    """

    EXPOSURE = "exposure"
    CLOUD = "cloud"
    PINS = "pins"
    PODS = "pods"
    PROGRAM = "program"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What a rule found at one key of one resource; ``line`` where it knows a better one."""

    key: str
    reason: str
    remedy: str
    given: Value = None
    verdict: Verdict = Verdict.FAIL
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One broken rule: who, where, what was given, why that is refused, what to do.

    ``subject`` is the resource's type and name, or a file. ``tolerable_at_preview`` is true where
    a value that is not known yet will be known, and judged again, when the update runs. ``waived``
    says who lets it through, until when and why; it is empty for what is not waived.
    """

    rule: str
    severity: Severity
    subject: str
    key: str
    reason: str
    remedy: str
    verdict: Verdict
    given: str | None = None
    urn: str = ""
    origin: str = ""
    line: int | None = None
    tolerable_at_preview: bool = False
    waived: str = ""

    def __str__(self) -> str:
        """Read as one line: resource, rule, key, given value, reason and remedy."""
        key = f"{self.key}: " if self.key else ""
        given = f"{self.given} " if self.given is not None else ""
        return f"{self.subject}: {self.rule}: {key}{given}{self.reason}; {self.remedy}."


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A sentence that every resource must satisfy.

    ``applies`` looks at the type token alone and is asked first. ``faults`` is given the resource
    and what is known of the rest. ``joins`` holds for rules that find more where everything is
    known: the pack asks them once more when the whole stack is. ``tolerates_unknown_at_preview``
    holds for pins, whose values are judged again at the update; exposure that cannot be
    determined is refused at once. ``code`` is the rule's short name in reports, such as E1.
    """

    code: str

    name: str
    description: str
    family: Family
    severity: Severity
    remediation: str
    references: tuple[str, ...]
    applies: Callable[[str], bool]
    faults: Callable[[Resource, Estate], Iterable[Fault]]
    tolerates_unknown_at_preview: bool
    joins: bool = False

    def judge(self, resource: Resource, estate: Estate = ALONE) -> tuple[Finding, ...]:
        """Return a finding for everything in the resource that breaks this rule."""
        if not self.applies(resource.type):
            return ()
        return tuple(self._finding(resource, fault) for fault in self.faults(resource, estate))

    def _finding(self, resource: Resource, fault: Fault) -> Finding:
        tolerable = fault.verdict is Verdict.UNDETERMINABLE and self.tolerates_unknown_at_preview
        return Finding(
            rule=self.name,
            severity=self.severity,
            subject=f"{resource.type} {resource.name}",
            key=fault.key,
            given=_shown(fault.given, secret=resource.is_secret(fault.key)),
            reason=fault.reason,
            remedy=fault.remedy,
            verdict=fault.verdict,
            urn=resource.urn,
            origin=resource.origin,
            line=fault.line or resource.line,
            tolerable_at_preview=tolerable,
        )


def _shown(value: Value, *, secret: bool) -> str | None:
    """Return a value as one printable line, or a word in place of a secret or a long text."""
    if value is None or value is UNKNOWN:
        return None
    if secret:
        return "[secret]"
    text = str(value)
    if len(text) > _LONGEST_VALUE_SHOWN:
        return f"a text of {len(text)} characters"
    return text if text.isprintable() else ascii(text)
