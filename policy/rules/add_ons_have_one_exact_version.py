"""An add-on has one version; without, or asked for the most recent, EKS chooses by the day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type, truth
from policy.estate import Estate
from policy.resources import UNKNOWN, Resource, Value, is_body, key_path
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.versions import Exactness, is_exact_version

_ADD_ONS: Final = frozenset({"eks.Addon", "eks-component.Addon"})
_COMPONENT: Final = "eks-component.Cluster"
_CALL: Final = "eks.getAddonVersion"
_EXACT: Final = Exactness(
    is_exact=is_exact_version,
    missing="is missing, which means the default version of the day",
    loose="is not one exact version",
    remedy="give one such as v1.21.1-eksbuild.3",
)
# Options of add-ons that the component `eks.Cluster` makes itself, such as vpcCniOptions
# (pulumi.com/registry/packages/eks/api-docs/cluster).
_OPTIONS: Final = re.compile(r"vpcCniOptions|\w+AddonOptions")
_VERSIONS: Final = ("addonVersion", "version")


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    kind = aws_type(resource.type)
    if kind in _ADD_ONS:
        if resource.properties or kind == "eks.Addon":
            yield from _EXACT.faults("addonVersion", resource.properties.get("addonVersion"))
    elif kind == _COMPONENT:
        for name, options in resource.properties.items():
            if _OPTIONS.fullmatch(name):
                yield from _option_faults(name, options)
    else:
        yield from _call_faults(resource)


def _option_faults(name: str, options: Value) -> Iterator[Fault]:
    if options is UNKNOWN:
        yield from _EXACT.faults(name, UNKNOWN)
    if is_body(options) and truth(options.get("enabled")) is not False:
        key = next((key for key in _VERSIONS if key in options), _VERSIONS[0])
        yield from _EXACT.faults(key_path(name, key), options.get(key))


def _call_faults(call: Resource) -> Iterator[Fault]:
    """Yield a fault for a call without a version of its own: its answer changes by the day."""
    most_recent = call.properties.get("mostRecent")
    if truth(most_recent) is not False:
        unknown = most_recent is UNKNOWN
        yield Fault(
            key="mostRecent",
            given=most_recent,
            reason="asks EKS for whichever version it offers that day",
            remedy=_EXACT.remedy,
            verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
        )


RULE: Final = Rule(
    code="P5",
    name="add-ons-have-one-exact-version",
    description="Every EKS add-on has one exact version.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write the one version that was tested; raise it by a reviewed change.",
    references=("https://docs.aws.amazon.com/eks/latest/userguide/managing-add-ons.html",),
    applies=lambda token: aws_type(token) in {*_ADD_ONS, _COMPONENT, _CALL},
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
