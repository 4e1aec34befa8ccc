"""What guards an engine's Service guards no alias of it; so there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aliases import alias_faults
from policy.estate import Estate
from policy.objects import is_kubernetes, objects_in
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    for thing in objects_in(resource):
        yield from alias_faults(thing, estate)


RULE: Final = Rule(
    code="E11",
    name="engines-have-no-other-name",
    description="No ExternalName, hand-written endpoint, mesh entry or export names an engine.",
    family=Family.EXPOSURE,
    severity=Severity.HIGH,
    remediation="Remove the alias, and let callers use the gateway's name.",
    references=(
        "https://kubernetes.io/docs/concepts/services-networking/service/#externalname",
        "https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/",
        "https://multicluster.sigs.k8s.io/concepts/multicluster-services-api/",
        "https://istio.io/latest/docs/reference/config/networking/service-entry/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
