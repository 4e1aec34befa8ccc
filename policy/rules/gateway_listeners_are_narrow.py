"""A listener serves named hosts, for routes of namespaces that were chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.gateways import gateway_faults
from policy.objects import is_kubernetes, objects_in
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    for thing in objects_in(resource):
        yield from gateway_faults(thing)


RULE: Final = Rule(
    code="E4",
    name="gateway-listeners-are-narrow",
    description="A Gateway's listeners serve named hosts for routes of chosen namespaces.",
    family=Family.EXPOSURE,
    severity=Severity.HIGH,
    remediation=(
        "Leave allowedRoutes at Same, or select namespaces by a label that is named; give each "
        "listener its hostname."
    ),
    references=(
        "https://gateway-api.sigs.k8s.io/guides/multiple-ns/",
        "https://gateway-api.sigs.k8s.io/concepts/security-model/",
        "https://istio.io/latest/docs/reference/config/networking/gateway/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
