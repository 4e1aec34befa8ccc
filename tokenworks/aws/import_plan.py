"""Deciding what a stack whose state is lost can adopt, from names and tags alone.

What programs register is known without a cloud; names are deterministic. So what exists under a
name that is expected, and proves by its tags to be this environment's, is what the stack had made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tokenworks.aws.import_keys import CANNOT, Key, key_of


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One registration of a program; ``known_as`` are the ids by which others refer to it.

    ``parent`` and ``provider`` are URNs, empty where there is none.
    """

    type: str
    name: str
    urn: str
    parent: str = ""
    provider: str = ""
    custom: bool = True
    inputs: Mapping[str, Any] = field(default_factory=dict)
    known_as: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Existing:
    """One resource that is there: the id by which Pulumi imports it, and what it is known by.

    ``ours`` says whether its tags, or those of what it belongs to, prove it this environment's.
    ``known_as`` are other ids under which resources refer to it, such as its ARN.
    """

    type: str
    id: str
    key: Key
    ours: bool
    known_as: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Match:
    """One registration and the resource that it adopts."""

    expected: Expected
    existing: Existing

    @property
    def id(self) -> str:
        """The id by which Pulumi imports it."""
        return self.existing.id


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """One registration, or one resource, that is left to people, and why."""

    type: str
    name: str
    because: str


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """What one stack adopts, what it will make, and what people must look at."""

    stack: str
    matches: tuple[Match, ...]
    components: tuple[Expected, ...]
    missing: tuple[Unmatched, ...]
    unclear: tuple[Unmatched, ...]

    def real(self) -> dict[str, str]:
        """Real ids and ARNs by those that the mocked provider gave."""
        pairs = (_translation(match.expected, match.existing) for match in self.matches)
        return {mocked: id_ for each in pairs for mocked, id_ in each.items()}

    def file(self) -> dict[str, Any]:
        """What ``pulumi import --file`` reads: components first, then what they hold.

        Names in such a file are its own; the last part of each URN is the resource's.
        """
        names = {one.urn: _file_name(one) for one in self.components}
        providers = sorted({m.expected.provider for m in self.matches} - {""})
        table = {_provider_name(urn): urn for urn in providers}
        resources = [_component(one, names) for one in self.components]
        resources += [_resource(match, names) for match in self.matches]
        return {"nameTable": table, "resources": resources}


_KUBERNETES: Final = "kubernetes:"
_HELM: Final = "kubernetes:helm.sh/"


def plan_import(
    stack: str,
    expected: Iterable[Expected],
    existing: Iterable[Existing],
    known: Mapping[str, str] | None = None,
) -> ImportPlan:
    """Match what a program registers with what exists; in order, as later ones refer to earlier.

    ``known`` are real ids by mocked ones, from the programs before it.
    """
    registered = list(expected)
    there: dict[tuple[str, Key], list[Existing]] = {}
    for each in existing:
        there.setdefault((each.type, each.key), []).append(each)
    real = dict(known or {})
    matches: list[Match] = []
    missing: list[Unmatched] = []
    unclear: list[Unmatched] = []
    for one in registered:
        if not one.custom or one.type.startswith("pulumi:"):
            continue
        found, because = _find(one, there, real)
        if found is not None:
            matches.append(Match(expected=one, existing=found))
            real |= _translation(one, found)
        elif because:
            unclear.append(Unmatched(type=one.type, name=one.name, because=because))
        else:
            missing.append(
                Unmatched(type=one.type, name=one.name, because="nothing of that name exists")
            )
    needed = _with_parents(matches, registered)
    return ImportPlan(
        stack=stack,
        matches=tuple(matches),
        components=tuple(one for one in registered if one.urn in needed),
        missing=tuple(missing),
        unclear=tuple(unclear),
    )


def strangers(plans: Iterable[ImportPlan], existing: Iterable[Existing]) -> tuple[Unmatched, ...]:
    """What carries the environment's tags and no program registers: left by older versions."""
    adopted = {(match.expected.type, match.id) for plan in plans for match in plan.matches}
    return tuple(
        Unmatched(type=each.type, name=each.id, because="ours by its tags, and in no program")
        for each in sorted(existing, key=lambda one: (one.type, one.id))
        if each.ours and (each.type, each.id) not in adopted
    )


def _find(
    one: Expected, there: Mapping[tuple[str, Key], list[Existing]], real: Mapping[str, str]
) -> tuple[Existing | None, str]:
    """The one resource that this is, or why people must look; neither where there is none."""
    if one.type.startswith(_KUBERNETES):
        return None, _in_cluster(one)
    if one.type in CANNOT:
        return None, CANNOT[one.type]
    key = key_of(one.type, _translated(one.inputs, real))
    if key is None:
        return None, "nothing here knows how it is found; look for it by hand"
    candidates = there.get((one.type, key), [])
    if len(candidates) > 1:
        ids = ", ".join(sorted(each.id for each in candidates))
        return None, f"several have that name: {ids}"
    if candidates and not candidates[0].ours:
        return None, f"{candidates[0].id} has its name, and carries no tag of this environment"
    return (candidates[0], "") if candidates else (None, "")


def _in_cluster(one: Expected) -> str:
    if one.type.startswith(_HELM):
        return "a chart: import it as <namespace>/<name> if the cluster has it"
    return "in the cluster: the next update takes it over by its fixed name"


def _translation(one: Expected, found: Existing) -> dict[str, str]:
    """Real ids for those that the mocked provider gave, of the same form."""
    translated = {name: found.id for name in one.known_as if not name.startswith("arn:")}
    arns = [name for name in found.known_as if name.startswith("arn:")]
    return translated | {name: arns[0] for name in one.known_as if name.startswith("arn:") and arns}


def _translated(value: Any, real: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _translated(child, real) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_translated(child, real) for child in value]
    return real.get(value, value) if isinstance(value, str) else value


def _with_parents(matches: Iterable[Match], registered: Iterable[Expected]) -> set[str]:
    """URNs of the components above what is adopted: the state has lost them as well."""
    parents = {one.urn: one.parent for one in registered}
    needed: set[str] = set()
    for match in matches:
        urn = match.expected.parent
        while urn and urn not in needed:
            needed.add(urn)
            urn = parents.get(urn, "")
    return needed


def _file_name(one: Expected) -> str:
    """A name that is alone in the file: type and name together are alone in a stack."""
    return f"{one.type}::{one.name}"


def _provider_name(urn: str) -> str:
    return f"provider::{urn.rpartition('::')[2]}"


def _component(one: Expected, names: Mapping[str, str]) -> dict[str, Any]:
    parent = {"parent": names[one.parent]} if one.parent in names else {}
    named = {"type": one.type, "name": _file_name(one), "logicalName": one.name}
    return {**named, "component": True, **parent}


def _resource(match: Match, names: Mapping[str, str]) -> dict[str, Any]:
    one = match.expected
    parent = {"parent": names[one.parent]} if one.parent in names else {}
    provider = {"provider": _provider_name(one.provider)} if one.provider else {}
    named = {"type": one.type, "name": _file_name(one), "logicalName": one.name}
    return {**named, "id": match.id, **parent, **provider}
