"""Waivers: findings that somebody answers for, each for one resource and for a limited time.

``policy/waivers.yaml`` is the only place that silences a rule, so that one reviewed file says
everything that is let through. A waiver that has expired, matches nothing, is written twice or is
not exact is itself a violation, and it waives nothing. What is waived is still shown.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from policy.documents import Document, Flaw, read_documents
from policy.resources import Resource
from policy.rule import Family, Finding, Rule, Severity, Verdict

LONGEST_DAYS: Final = 90
FILE: Final = Path(__file__).parent / "waivers.yaml"
NAME: Final = "policy/waivers.yaml"
_REQUIRED: Final = ("rule", "resource", "reason", "owner", "issue", "expires")
_OPTIONAL: Final = ("key",)
_NARROWER: Final = ("key", "file", "environment")
_TYPE_AND_NAME: Final = {"type", "name"}
_WILDCARD: Final = re.compile(r"[*?]")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

RULE: Final = Rule(
    code="C1",
    name="waivers-are-exact-and-expire",
    description=f"Every waiver names one rule and one resource, is needed, has a reason, an owner "
    f"and an issue, and ends within {LONGEST_DAYS} days.",
    family=Family.PROGRAM,
    severity=Severity.HIGH,
    remediation=f"Correct the entry in {NAME}, or delete it and what it waives.",
    references=("https://docs.github.com/articles/about-code-owners",),
    applies=lambda _: False,
    faults=lambda _resource, _estate: (),
    tolerates_unknown_at_preview=False,
)


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """One entry: which findings it lets through, who answers for that, and until when.

    Without ``key`` it holds for everything that the rule finds in the resource. With ``file`` the
    resource is one of that manifest, with ``environment`` one of that environment's programs.
    ``expires`` is the last day on which it holds.
    """

    rule: str
    type: str
    name: str
    reason: str
    owner: str
    issue: str
    expires: datetime.date
    index: int
    line: int
    key: str = ""
    file: str = ""
    environment: str = ""

    @property
    def subject(self) -> str:
        """The resource as findings name it."""
        return f"{self.type} {self.name}"

    def covers(self, finding: Finding) -> bool:
        """Return whether it lets this finding through."""
        return (
            finding.rule == self.rule
            and finding.subject == self.subject
            and self.key in {"", finding.key}
            and self.file in {"", finding.origin}
            and self.environment in {"", _environment(finding.urn)}
        )

    def overlaps(self, other: Waiver) -> bool:
        """Return whether one finding could be let through by both."""
        same = (self.rule, self.type, self.name) == (other.rule, other.type, other.name)
        pairs = ((getattr(self, name), getattr(other, name)) for name in _NARROWER)
        return same and all(mine == theirs or not (mine and theirs) for mine, theirs in pairs)

    def __str__(self) -> str:
        """Say why a finding is let through, and until when."""
        return f"waived until {self.expires} by {self.owner}: {self.reason} ({self.issue})"


@dataclass(frozen=True, kw_only=True)
class Waivers:
    """Waivers that hold today, and what is wrong with the others."""

    entries: tuple[Waiver, ...] = ()
    findings: tuple[Finding, ...] = ()

    def applied(self, finding: Finding) -> Finding:
        """Return the finding, marked as waived where a waiver covers it."""
        by = next((entry for entry in self.entries if entry.covers(finding)), None)
        return finding if by is None else dataclasses.replace(finding, waived=str(by))

    def unmatched(
        self, findings: Sequence[Finding], judged: Iterable[Resource], *, everything: bool
    ) -> tuple[Finding, ...]:
        """Return a finding for every waiver that nothing needs any more.

        With ``everything``, all environments were judged; otherwise a waiver for what was not is
        left alone. A waiver for a manifest is asked for only where that manifest was judged.
        """
        scope = _Scope.of(judged, everything=everything)
        return tuple(
            _finding(
                entry.index,
                entry.line,
                "",
                f"matches nothing that {entry.rule} finds in {entry.subject}",
                "delete it",
            )
            for entry in self.entries
            if scope.holds(entry) and not any(entry.covers(finding) for finding in findings)
        )


@dataclass(frozen=True, kw_only=True)
class _Scope:
    """What was judged, as far as waivers name it."""

    subjects: frozenset[str]
    files: frozenset[str]
    environments: frozenset[str]
    everything: bool

    @classmethod
    def of(cls, judged: Iterable[Resource], *, everything: bool) -> _Scope:
        resources = tuple(judged)
        return cls(
            subjects=frozenset(f"{one.type} {one.name}" for one in resources),
            files=frozenset(one.origin for one in resources),
            environments=frozenset(_environment(one.urn) for one in resources),
            everything=everything,
        )

    def holds(self, entry: Waiver) -> bool:
        if entry.file:
            return entry.file in self.files
        if self.everything:
            return True
        if entry.environment:
            return entry.environment in self.environments
        return entry.subject in self.subjects


def _environment(urn: str) -> str:
    """Return the environment of a URN: its stack's name up to the last hyphen."""
    stack = urn.partition("::")[0].removeprefix("urn:pulumi:")
    return stack.rpartition("-")[0]


@functools.cache
def in_force() -> Waivers:
    """Return the waivers of this checkout that hold today, read once in a process."""
    from policy.rules import RULES

    return load_waivers(FILE, RULES, datetime.datetime.now(datetime.UTC).date())


def load_waivers(file: Path, rules: Iterable[Rule], today: datetime.date) -> Waivers:
    """Return the waivers in a file; none where there is no file.

    A file that cannot be read waives nothing, and that is a finding.
    """
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Waivers()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read ({error})"
        return Waivers(findings=(_finding(None, 1, "", reason, "make it a UTF-8 YAML file"),))
    return parse_waivers(text, rules, today)


def parse_waivers(text: str, rules: Iterable[Rule], today: datetime.date) -> Waivers:
    """Return the waivers in a text that hold today, and a finding for everything wrong in it."""
    documents = list(read_documents(text))
    flaws = [one for one in documents if isinstance(one, Flaw)]
    if flaws:
        found = (_finding(None, flaw.line or 1, "", flaw.reason, flaw.remedy) for flaw in flaws)
        return Waivers(findings=tuple(found))
    if not documents:
        return Waivers()
    document = documents[0]
    assert isinstance(document, Document)  # noqa: S101  flaws are gone
    listed = document.data.get("waivers") if isinstance(document.data, dict) else None
    if len(documents) > 1 or not isinstance(listed, list) or set(document.data) != {"waivers"}:
        reason = "is no list of waivers"
        return Waivers(
            findings=(_finding(None, document.line, "", reason, "write one key, waivers: []"),)
        )
    return _judged(document, listed, {rule.name for rule in rules}, today)


def _judged(
    document: Document, listed: list[Any], rules: set[str], today: datetime.date
) -> Waivers:
    entries: list[Waiver] = []
    findings: list[Finding] = []
    for index, raw in enumerate(listed):
        line = document.line_of(f"waivers[{index}]")
        faults = list(_faults(raw, rules, today))
        findings += [_finding(index, line, *fault) for fault in faults]
        if not faults:
            entry = _waiver(raw, index, line)
            first = next((one for one in entries if one.overlaps(entry)), None)
            if first is None:
                entries.append(entry)
            else:
                reason = f"repeats waivers[{first.index}], which covers the same findings"
                findings.append(_finding(index, line, "", reason, "delete one of them"))
    return Waivers(entries=tuple(entries), findings=tuple(findings))


def _waiver(raw: Mapping[str, Any], index: int, line: int) -> Waiver:
    resource = raw["resource"]
    return Waiver(
        rule=raw["rule"],
        type=resource["type"],
        name=resource["name"],
        file=resource.get("file", ""),
        environment=resource.get("environment", ""),
        key=raw.get("key", ""),
        reason=raw["reason"],
        owner=raw["owner"],
        issue=raw["issue"],
        expires=datetime.date.fromisoformat(raw["expires"]),
        index=index,
        line=line,
    )


Complaint = tuple[str, str, str]
"""Key within the entry, reason, remedy."""


def _faults(raw: Any, rules: set[str], today: datetime.date) -> Iterator[Complaint]:
    if not isinstance(raw, dict):
        yield "", "is no waiver", f"give {', '.join(_REQUIRED)}"
        return
    for name in _REQUIRED:
        if _absent(raw.get(name)):
            yield name, "is missing", "every waiver says it"
    for name in raw:
        if name not in _REQUIRED and name not in _OPTIONAL:
            yield name, "is no part of a waiver", "delete it"
    yield from _text_faults(raw)
    yield from _resource_faults(raw.get("resource"))
    if isinstance(raw.get("rule"), str) and raw["rule"] and raw["rule"] not in rules:
        yield "rule", f"{raw['rule']} is no rule that can be waived", "name one rule exactly"
    yield from _expiry_faults(raw.get("expires"), today)


def _absent(value: Any) -> bool:
    return value is None or value == ""


def _text_faults(raw: Mapping[str, Any]) -> Iterator[Complaint]:
    for name in ("rule", "key", "reason", "owner", "issue"):
        value = raw.get(name)
        if _absent(value):
            continue
        if not (isinstance(value, str) and value.strip() and value.isprintable()):
            yield name, "is no line of text", "write one line of text"
        elif name in {"rule", "key"} and _WILDCARD.search(value):
            yield name, f"{value} has a wildcard", "waive each finding by its exact name"
        elif name == "issue" and not value.startswith("https://"):
            yield name, f"{value} is no link", "link the issue that ends the exception, https://…"


def _resource_faults(resource: Any) -> Iterator[Complaint]:
    if _absent(resource):
        return
    if not isinstance(resource, dict):
        yield "resource", "is no type and name", "give type and name of one resource"
        return
    if "file" in resource and "environment" in resource:
        yield "resource", "has both file and environment", "give one, or neither"
    for name in sorted(_TYPE_AND_NAME - set(resource)):
        yield f"resource.{name}", "is missing", "give type and name of one resource"
    for name, value in resource.items():
        yield from _name_faults(name, value)


def _name_faults(name: str, value: Any) -> Iterator[Complaint]:
    key = f"resource.{name}"
    if name not in {*_TYPE_AND_NAME, "file", "environment"}:
        yield key, "is no part of a resource", "give type, name, and file or environment"
    elif not (isinstance(value, str) and value and value.isprintable()):
        yield key, "is no text", "write it as findings show it"
    elif _WILDCARD.search(value):
        yield key, f"{value} has a wildcard", "waive each resource by its exact name"


def _expiry_faults(written: Any, today: datetime.date) -> Iterator[Complaint]:
    if _absent(written):
        return
    try:
        if not (isinstance(written, str) and _DATE.fullmatch(written)):
            raise ValueError(written)
        expires = datetime.date.fromisoformat(written)
    except ValueError:
        yield "expires", "is no date", "write the last day on which it holds, YYYY-MM-DD"
        return
    last = today + datetime.timedelta(days=LONGEST_DAYS)
    if expires < today:
        remedy = "delete it and correct what it waived, or have it reviewed again"
        yield "expires", f"{expires} is past, so that it waives nothing", remedy
    elif expires > last:
        reason = f"{expires} is more than {LONGEST_DAYS} days ahead"
        yield "expires", reason, f"choose a day up to {last}"


def _finding(index: int | None, line: int, key: str, reason: str, remedy: str) -> Finding:
    entry = "" if index is None else f"waivers[{index}]"
    return Finding(
        rule=RULE.name,
        severity=RULE.severity,
        subject=f"{NAME} {entry}".strip(),
        key=key,
        reason=reason,
        remedy=remedy,
        verdict=Verdict.FAIL,
        origin=NAME,
        line=line,
    )
