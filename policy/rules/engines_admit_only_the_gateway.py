"""A NetworkPolicy refuses whoever is not the gateway, also inside the cluster.

That a policy is missing is said only where everything is known. A pod that any policy selects is
closed to all that no policy admits, so one that admits the gateway alone is enough for a pod; a
namespace of engines needs one that selects every pod, for those that come later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate, PlacedPod, name_of, placed_pods
from policy.network_policies import (
    GROUPS,
    has_default_deny,
    holds_engines,
    isolation,
    opening_faults,
)
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.other_policies import is_other_policy, other_opening_faults, other_policies
from policy.resources import UNKNOWN, Resource
from policy.rule import Family, Fault, Rule, Severity, Verdict


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    for thing in objects_in(resource):
        if thing.kind == "NetworkPolicy" and thing.group in GROUPS:
            yield from opening_faults(thing, estate)
        elif is_other_policy(thing):
            yield from other_opening_faults(thing, estate)
        elif estate.complete and thing.kind == "Namespace" and not thing.group:
            yield from _namespace_faults(thing, estate)
        elif estate.complete and not thing.partial:
            yield from _pod_faults(thing, estate)


def _namespace_faults(namespace: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    if holds_engines(namespace, estate) and not has_default_deny(name_of(namespace), estate):
        unknown = other_policies(estate)
        yield Fault(
            key=namespace.path("metadata", "name"),
            given=name_of(namespace),
            reason="has engines and no NetworkPolicy that selects every pod and admits nobody",
            remedy="add one with an empty podSelector and no ingress rules",
            verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
        )


def _pod_faults(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    for pod in placed_pods(thing):
        verdict = isolation(pod, estate) if pod.evidence is not None else None
        if verdict is not None:
            yield _open_pod(thing, pod, verdict, others=other_policies(estate))


def _open_pod(thing: KubernetesObject, pod: PlacedPod, verdict: Verdict, *, others: bool) -> Fault:
    sure = isinstance(pod.evidence, str) and verdict is Verdict.FAIL and not others
    whose = f"an engine, since {pod.evidence}" if pod.evidence is not UNKNOWN else "maybe an engine"
    return Fault(
        key=thing.path(*pod.spec.keys),
        reason=f"is {whose}, and no NetworkPolicy that is seen here refuses what may enter it",
        remedy="add a NetworkPolicy that selects its pods and admits the gateway's alone",
        verdict=Verdict.FAIL if sure else Verdict.UNDETERMINABLE,
    )


RULE: Final = Rule(
    code="E8",
    name="engines-admit-only-the-gateway",
    description="NetworkPolicies close engines to everybody but the gateway.",
    family=Family.EXPOSURE,
    severity=Severity.HIGH,
    remediation=(
        "Deny by default in the engines' namespace, and admit the gateway's pods to the engine's "
        "port by a NetworkPolicy."
    ),
    references=(
        "https://kubernetes.io/docs/concepts/services-networking/network-policies/",
        "https://docs.vllm.ai/en/stable/usage/security.html",
        "https://network-policy-api.sigs.k8s.io/api-overview/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
