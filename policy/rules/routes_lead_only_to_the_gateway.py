"""Whatever leads requests into the cluster leads them to the gateway, which checks keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.made_by_others import chart_route_faults, custom_route_faults, is_chart
from policy.objects import is_kubernetes, objects_in
from policy.published_workloads import published_workload_faults
from policy.resources import Resource
from policy.routes import is_route, route_faults
from policy.rule import Family, Fault, Rule, Severity


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    if is_chart(resource.type):
        yield from chart_route_faults(resource)
        return
    for thing in objects_in(resource):
        if is_route(thing):
            yield from route_faults(thing, estate)
        else:
            yield from custom_route_faults(thing)
        yield from published_workload_faults(thing)


RULE: Final = Rule(
    code="E3",
    name="routes-lead-only-to-the-gateway",
    description="No Ingress or route leads to engines, to metrics or to management.",
    family=Family.EXPOSURE,
    severity=Severity.CRITICAL,
    remediation="Lead the route to the gateway's Service; it checks keys and allow-lists paths.",
    references=(
        "https://docs.vllm.ai/en/stable/usage/security.html",
        "https://gateway-api.sigs.k8s.io/api-types/referencegrant/",
        "https://docs.ray.io/en/latest/ray-security/index.html",
        "https://knative.dev/docs/serving/services/private-services/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
