"""Resources, from wherever they come, judged by every rule.

Four sources give the same ``Resource``: recorded programs, recorded calls, plain Kubernetes
manifests, and lists of ``{type, name, properties}``. A judgement that looked at nothing is no
pass.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policy.resources import Resource
from policy.rule import Finding, Rule
from policy.rules import RULES, every_version_is_exact
from tokenworks.check.charts import chart_of_call
from tokenworks.check.recording import RecordedResource, Recording
from tokenworks.errors import ConfigError, Problem

_SNAKE: Final = re.compile(r"_([a-z0-9])")


class Outcome(enum.StrEnum):
    """What a judgement comes to."""

    GOOD = "good"
    REFUSED = "refused"
    COULD_NOT_TELL = "could not tell"

    @property
    def exit_code(self) -> int:
        """0 good, 1 refused, 3 could not tell: a check that could not run is never a pass."""
        return {Outcome.GOOD: 0, Outcome.REFUSED: 1, Outcome.COULD_NOT_TELL: 3}[self]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Every finding over a number of resources or files, and the rules that were asked."""

    findings: tuple[Finding, ...]
    judged: int
    rules: tuple[Rule, ...]

    @property
    def outcome(self) -> Outcome:
        """Refused if anything breaks a rule; could not tell if a pin, or everything, is unknown."""
        if any(not finding.tolerable_at_preview for finding in self.findings):
            return Outcome.REFUSED
        return Outcome.COULD_NOT_TELL if self.findings or not self.judged else Outcome.GOOD

    def __add__(self, other: Judgement) -> Judgement:
        """Return both judgements as one; rules are named once."""
        more = tuple(rule for rule in other.rules if rule not in self.rules)
        return Judgement(
            findings=self.findings + other.findings,
            judged=self.judged + other.judged,
            rules=self.rules + more,
        )


def judge(resources: Iterable[Resource], rules: Sequence[Rule] = RULES) -> Judgement:
    """Return every finding of every rule, resource by resource."""
    judged = 0
    findings: list[Finding] = []
    for resource in resources:
        judged += 1
        findings += [finding for rule in rules for finding in rule.judge(resource)]
    return Judgement(findings=tuple(findings), judged=judged, rules=tuple(rules))


def judge_recorded(
    recorded: Recording | Iterable[RecordedResource], rules: Sequence[Rule] = RULES
) -> Judgement:
    """Return the judgement of a recorded program, its calls included if it is a Recording."""
    resources = recorded.resources if isinstance(recorded, Recording) else recorded
    calls = recorded.calls if isinstance(recorded, Recording) else ()
    charts = (chart_of_call(call.token, call.arguments) for call in calls)
    everything = [*map(_recorded, resources), *(chart for chart in charts if chart is not None)]
    return judge(everything, rules)


def judge_requirement_files(files: Iterable[tuple[str, str]]) -> Judgement:
    """Return the judgement of Python requirement files, each given as path and text."""
    judged = 0
    findings: list[Finding] = []
    for path, text in files:
        judged += 1
        findings += every_version_is_exact.judge_requirements(path, text)
    return Judgement(findings=tuple(findings), judged=judged, rules=(every_version_is_exact.RULE,))


def resources_from_manifests(
    documents: Iterable[Mapping[str, object]], origin: str = ""
) -> Iterator[Resource]:
    """Yield a resource for each Kubernetes manifest; an empty document yields nothing.

    Raises ConfigError for a document without ``apiVersion`` or ``kind``.
    """
    for number, document in enumerate(documents, start=1):
        if not document:
            continue
        version, kind = document.get("apiVersion"), document.get("kind")
        if not (isinstance(version, str) and isinstance(kind, str)):
            raise ConfigError(
                [
                    Problem(
                        key=f"{origin} document {number}".strip(),
                        reason="has no apiVersion or no kind, so that nobody can tell what it is",
                        remedy="give Kubernetes manifests, one per document",
                    )
                ]
            )
        group = version if "/" in version else f"core/{version}"
        name = _name_of(document)
        yield Resource.of(f"kubernetes:{group}:{kind}", name, document, origin=origin)


def resources_from_list(
    listed: Iterable[Mapping[str, object]], origin: str = ""
) -> Iterator[Resource]:
    """Yield a resource for each ``{type, name, properties}``.

    Cloud resources may be written with Python's names (``from_port``) as well as with those of
    the wire. Raises ConfigError for an entry of another shape.
    """
    for number, entry in enumerate(listed):
        type_, properties = entry.get("type"), entry.get("properties", {})
        if not (isinstance(type_, str) and type_ and isinstance(properties, Mapping)):
            raise ConfigError(
                [
                    Problem(
                        key=f"{origin} [{number}]".strip(),
                        reason="is no resource",
                        remedy="give type, name and properties of each",
                    )
                ]
            )
        raw = properties if type_.startswith("kubernetes:") else _wire_names(properties)
        name = str(entry.get("name", ""))
        yield Resource.of(type_, name, raw, urn=str(entry.get("urn", "")), origin=origin)


def _recorded(recorded: RecordedResource) -> Resource:
    return Resource(
        type=recorded.type,
        name=recorded.name,
        properties=recorded.inputs,
        urn=recorded.urn,
        secrets=recorded.secrets,
    )


def _name_of(document: Mapping[str, object]) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name


def _wire_names(raw: Mapping[str, object]) -> dict[str, object]:
    return {_SNAKE.sub(_raised, str(key)): _wire_value(value) for key, value in raw.items()}


def _wire_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _wire_names(value)
    return [_wire_value(child) for child in value] if isinstance(value, list) else value


def _raised(match: re.Match[str]) -> str:
    return match[1].upper()
