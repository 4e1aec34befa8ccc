"""An engine that listens on its node's addresses is reached past every Service and policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.host_ports import host_port_faults
from policy.objects import is_kubernetes, objects_in
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    for thing in objects_in(resource):
        yield from host_port_faults(thing)


RULE: Final = Rule(
    code="E2",
    name="engines-stay-off-their-nodes-network",
    description="Engine pods use neither their node's network nor ports of their node.",
    family=Family.EXPOSURE,
    severity=Severity.CRITICAL,
    remediation="Remove hostNetwork and hostPort; the gateway reaches pods by a ClusterIP Service.",
    references=(
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline",
        "https://kubernetes.io/docs/concepts/services-networking/network-policies/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
