"""Engines are reached through the gateway, and through nothing else.

Engines have no authentication of their own that covers every path (vllm#29922, #18892), so what
is guarded here are ports and selectors. The rule denies by default: only the gateway may have a
load balancer, and an internal one. Where everything is known, a Service that selects pods which
are no engines is none of its business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.made_by_others import chart_service_faults, custom_service_faults, is_chart
from policy.objects import has_unknown_items, is_kubernetes, objects_in
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.services import service_faults


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    if is_chart(resource.type):
        yield from chart_service_faults(resource)
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
            yield from service_faults(thing, estate)
        yield from custom_service_faults(thing)


RULE: Final = Rule(
    code="E1",
    name="only-the-gateway-has-a-load-balancer",
    description="Only the gateway's Service leaves the cluster, by an internal load balancer.",
    family=Family.EXPOSURE,
    severity=Severity.CRITICAL,
    remediation=(
        "Give the engine a ClusterIP Service and reach it through the gateway, whose load "
        "balancer is internal."
    ),
    references=(
        "https://docs.vllm.ai/en/stable/usage/security.html",
        "https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html",
        "https://docs.ray.io/en/latest/ray-security/index.html",
        "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        "https://nvd.nist.gov/vuln/detail/CVE-2020-8554",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
