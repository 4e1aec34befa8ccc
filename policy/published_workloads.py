"""Workloads that their platform publishes by itself: Knative and KServe give each an address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.objects import KubernetesObject
from policy.pods import pod_specs
from policy.resources import UNKNOWN, peek
from policy.rule import Fault, Verdict

# knative.dev/docs/serving/services/private-services;
# kserve.github.io/website, "Private inference services"
_VISIBILITY: Final = ("networking.knative.dev/visibility", "networking.kserve.io/visibility")
_INSIDE: Final = "cluster-local"
_KNATIVE: Final = "serving.knative.dev"
_KSERVE: Final = "serving.kserve.io"


def published_workload_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for an engine that its platform would publish by itself."""
    if _is_inside(thing):
        return
    if thing.kind == "Service" and thing.group == _KNATIVE:
        for evidence in (engines.in_pod(pod) for pod in pod_specs(thing)):
            if evidence is not None:
                yield _fault(thing, evidence)
                return
    elif thing.group == _KSERVE and _makes_a_route(thing):
        yield _fault(thing, "it serves a model")


def _fault(thing: KubernetesObject, evidence: engines.Evidence) -> Fault:
    given = peek(thing.body, "metadata", "labels", _VISIBILITY[0])
    known = evidence is not UNKNOWN and given is not UNKNOWN and thing.group == _KNATIVE
    whose = "what may be an engine" if evidence is UNKNOWN else f"an engine, since {evidence}"
    return Fault(
        key=thing.path("metadata", "labels", _VISIBILITY[0]),
        reason=f"is not {_INSIDE}, so that the platform gives a public address to {whose}",
        remedy=f"label it {_VISIBILITY[0]}: {_INSIDE}, and let the gateway serve it",
        verdict=Verdict.FAIL if known else Verdict.UNDETERMINABLE,
    )


def _is_inside(thing: KubernetesObject) -> bool:
    return any(thing.label(name) == _INSIDE for name in _VISIBILITY)


def _makes_a_route(thing: KubernetesObject) -> bool:
    if thing.kind == "LLMInferenceService":  # makes a route only where it is told of a router
        return peek(thing.body, "spec", "router") is not None
    return thing.kind in ("InferenceService", "InferenceGraph")
