"""Cases of rules, read from files: a sentence, a resource, and what one rule finds in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from policy.estate import ALONE, Estate
from policy.resources import UNKNOWN, Resource, Unknown
from policy.rule import Finding, Rule
from policy.rules import RULES

FOLDER = Path(__file__).parent / "cases"
NAME = "under-test"
UNKNOWN_ON_THE_WIRE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a type's signature


@dataclass(frozen=True)
class Expected:
    """What a case says of one finding: where, how sure, and words of its message."""

    key: str
    verdict: str = "fail"
    says: str = ""


@dataclass(frozen=True)
class Case:
    """One resource and everything that one rule finds in it.

    With ``among``, the resource and those are all that is deployed; without, nothing is known of
    the rest. ``ignored`` are the program's ``ignoreChanges``.
    """

    rule: Rule
    file: str
    says: str
    type: str
    properties: dict[str, Any]
    finds: tuple[Expected, ...]
    among: tuple[dict[str, Any], ...] | None = None
    ignored: tuple[str, ...] = ()
    parent: str = ""

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.says}"

    def judged(self, properties: dict[str, Any]) -> list[Finding]:
        """Return what the case's rule finds in its resource with these properties."""
        resource = Resource.of(
            self.type, NAME, properties, ignored=self.ignored, parent=self.parent
        )
        found = self.rule.judge(resource, self._estate(resource))
        return sorted(found, key=lambda finding: finding.key)

    def _estate(self, resource: Resource) -> Estate:
        if self.among is None:
            return ALONE
        others = (Resource.of(one["type"], one["name"], one["properties"]) for one in self.among)
        return Estate.of([resource, *others])

    def check(self, found: list[Finding]) -> None:
        """Compare findings with those that the case expects: all of them, and no others."""
        expected = sorted(self.finds, key=lambda one: one.key)
        assert [(one.key, one.verdict.value) for one in found] == [
            (one.key, one.verdict) for one in expected
        ]
        for finding, one in zip(found, expected, strict=True):
            assert one.says in str(finding)


def all_cases() -> Iterator[Case]:
    """Yield every case of every rule."""
    for rule in RULES:
        for path in sorted((FOLDER / rule.name).glob("*.yaml")):
            for raw in _yaml().load(path):
                yield _case(rule, path.name, raw)


def _case(rule: Rule, file: str, raw: dict[str, Any]) -> Case:
    among = raw.get("among")
    return Case(
        rule=rule,
        file=file,
        says=raw["case"],
        type=raw["type"],
        properties=raw["properties"],
        finds=tuple(Expected(**one) for one in raw["finds"]),
        among=None if among is None else tuple(among),
        ignored=tuple(raw.get("ignored", ())),
        parent=raw.get("parent", ""),
    )


def with_unknown_leaves(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties with unknown values beside everything, where no rule looks."""
    return {**_beside(properties), "zUnrelated": {"deeper": [UNKNOWN, UNKNOWN]}}


def as_secrets(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties as the wire has them if every property is a secret."""
    return {
        key: {_SIGNATURE: _SECRET, "value": value} if value is not UNKNOWN else value
        for key, value in properties.items()
    }


def on_the_wire(value: Any) -> Any:
    """Return a value as a policy pack receives it."""
    if isinstance(value, Unknown):
        return UNKNOWN_ON_THE_WIRE
    if isinstance(value, dict):
        return {key: on_the_wire(child) for key, child in value.items()}
    return [on_the_wire(child) for child in value] if isinstance(value, list) else value


def _beside(value: Any) -> Any:
    if isinstance(value, list):
        return [_beside(child) for child in value]
    if not isinstance(value, dict):
        return value
    return {**{key: _beside(child) for key, child in value.items()}, "zUnrelated": UNKNOWN}


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.constructor.add_constructor("!unknown", _unknown)
    return yaml


def _unknown(_constructor: object, _node: object) -> Unknown:
    return UNKNOWN
