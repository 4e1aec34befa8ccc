"""No configuration of the pack weakens it: a waiver is the only way past a rule.

``--policy-pack-config`` takes ``{"all": "disabled"}`` and the name of any policy, and accepts names
that do not exist (pulumi, ``analyzer/config.go``), so a file that says so is a violation itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.files import CONTENT, PACK_CONFIG
from policy.resources import UNKNOWN, Resource, Value, is_body, key_path
from policy.rule import Family, Fault, Rule, Severity, Verdict

_LEVEL: Final = "enforcementLevel"
_MANDATORY: Final = "mandatory"
# The policy that only advises; it may be as loud as anybody likes, but not silent.
_ADVICE: Final = "advice"
_ADVISORY: Final = frozenset({_MANDATORY, "advisory"})
_REMEDY: Final = "remove it, and ask for a waiver of one rule for one resource"


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if resource.properties.get(CONTENT) is UNKNOWN:
        yield Fault(
            key=CONTENT,
            reason="cannot be read, and may switch the pack off",
            remedy="make it a JSON object, or delete it",
            verdict=Verdict.UNDETERMINABLE,
        )
        return
    for name, configured in resource.properties.items():
        keys, level = _level_of(name, configured)
        if level is UNKNOWN:
            yield Fault(
                key=key_path(*keys),
                reason="is not known, and may switch the policy off",
                remedy=_REMEDY,
                verdict=Verdict.UNDETERMINABLE,
            )
        elif level is not None and level not in _allowed(name):
            yield Fault(
                key=key_path(*keys), given=level, reason="weakens the policy", remedy=_REMEDY
            )


def _level_of(name: str, configured: Value) -> tuple[tuple[str, ...], Value]:
    if is_body(configured):
        return (name, _LEVEL), configured.get(_LEVEL)
    return (name,), configured


def _allowed(name: str) -> frozenset[str]:
    return _ADVISORY if name == _ADVICE else frozenset({_MANDATORY})


RULE: Final = Rule(
    code="M2",
    name="the-pack-is-never-switched-off",
    description="No configuration disables a policy of the pack, or makes it merely advise.",
    family=Family.PROGRAM,
    severity=Severity.CRITICAL,
    remediation="Delete the configuration; a waiver names one rule, one resource and its reason.",
    references=("https://www.pulumi.com/docs/insights/policy/policy-packs/configuration/",),
    applies=lambda token: token == PACK_CONFIG,
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
