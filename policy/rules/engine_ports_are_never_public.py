"""Engines are reached through the gateway, and through nothing else.

Engines have no authentication of their own that covers every path (vllm#29922, #18892), so what
is guarded here are ports and selectors. Rules of resources block before anything exists; so this
one denies by default: only the gateway may have a load balancer, and what cannot be determined
counts as exposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.host_ports import host_port_faults
from policy.objects import has_unknown_items, is_kubernetes, objects_in
from policy.resources import Resource
from policy.routes import route_faults
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.security_groups import is_security_group, security_group_faults
from policy.services import service_faults

_REMEDIATION: Final = (
    "Give the engine a ClusterIP Service and reach it through the gateway, whose load balancer is "
    "internal; admit only the gateway's security group to engine ports."
)


def _faults(resource: Resource) -> Iterator[Fault]:
    if is_security_group(resource.type):
        yield from security_group_faults(resource)
        return
    if has_unknown_items(resource):
        yield Fault(
            key="items",
            reason="holds objects that are not known, and may publish an engine",
            remedy="declare each object as a resource of its own",
            verdict=Verdict.UNDETERMINABLE,
        )
    for thing in objects_in(resource):
        if thing.kind == "Service" and not thing.group:
            yield from service_faults(thing)
        yield from route_faults(thing)
        yield from host_port_faults(thing)


RULE: Final = Rule(
    name="engine-ports-are-never-public",
    description="Engine ports are never public: the one load balancer is the gateway's, internal.",
    family=Family.EXPOSURE,
    severity=Severity.CRITICAL,
    remediation=_REMEDIATION,
    references=(
        "https://docs.vllm.ai/en/stable/usage/security.html",
        "https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html",
        "https://docs.ray.io/en/latest/ray-security/index.html",
        "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        "https://nvd.nist.gov/vuln/detail/CVE-2020-8554",
    ),
    applies=lambda type_token: is_kubernetes(type_token) or is_security_group(type_token),
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
