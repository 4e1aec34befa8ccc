"""Engine pods that listen on their node's own addresses."""

from __future__ import annotations

from collections.abc import Iterator

from policy import engines
from policy.labels import ENGINE, GATEWAY, ROLE
from policy.objects import KubernetesObject
from policy.pods import PodSpec, pod_specs
from policy.resources import UNKNOWN, Value, elements, number, peek
from policy.rule import Fault, Verdict

_REMEDY = "remove it, and let the gateway reach the pod through a ClusterIP Service"


def host_port_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each way in which an engine pod shares its node's network.

    Also for an engine that wears the gateway's label, which would make it look like the one pod
    that may be published.
    """
    for pod in pod_specs(thing):
        evidence = engines.in_pod(pod)
        if evidence is not None:
            yield from _shared_network(thing, pod, evidence)
        if isinstance(evidence, str) and peek(pod.labels, ROLE) == GATEWAY:
            yield _disguised(thing, pod, evidence)


def _shared_network(
    thing: KubernetesObject, pod: PodSpec, evidence: engines.Evidence
) -> Iterator[Fault]:
    for keys, given, what in _openings(pod):
        unknown = given is UNKNOWN or evidence is UNKNOWN
        may = "may open" if unknown else "opens"
        because = "may be" if evidence is UNKNOWN else f"is one, since {evidence}"
        yield Fault(
            key=thing.path(*keys),
            given=given,
            reason=f"{may} {what} of the node to an engine's port (the pod {because})",
            remedy=_REMEDY,
            verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
        )


def _openings(pod: PodSpec) -> Iterator[tuple[tuple[str | int, ...], Value, str]]:
    network = pod.body.get("hostNetwork")
    if network not in (None, False, "false"):
        yield (*pod.keys, "hostNetwork"), network, "every address"
    for keys, container in pod.containers():
        for index, port in elements(container.get("ports")):
            host_port = peek(port, "hostPort")
            if host_port is UNKNOWN or number(host_port) not in (None, 0):
                yield (*keys, "ports", index, "hostPort"), host_port, "an address"


def _disguised(thing: KubernetesObject, pod: PodSpec, evidence: str) -> Fault:
    return Fault(
        key=thing.path(*pod.labels_keys, ROLE),
        given=GATEWAY,
        reason=f"would let the gateway's Service publish an engine (it is one, since {evidence})",
        remedy=f"label it {ROLE}: {ENGINE}",
    )
