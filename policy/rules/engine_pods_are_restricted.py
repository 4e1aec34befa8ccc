"""Engines run code that comes with weights, and prompts of strangers: they get no right to spare.

Judged are pods that are engines by what they are, and the pods of this toolkit. Others are not:
most public charts do not meet ``restricted``, and a namespace can demand it of whom it holds. A
pod that may be an engine, since its image is not known yet, is judged again at the update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate
from policy.labels import OURS, PART_OF, ROLE
from policy.node_access import is_gpu_system_daemon, node_access
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.pods import PodSpec, pod_specs
from policy.resources import UNKNOWN, Resource, peek
from policy.restricted import Breach, breaches, host_ports
from policy.rule import Family, Fault, Rule, Severity, Verdict


def sensitive(pod: PodSpec) -> engines.Evidence:
    """Return why a pod is an engine or one of this toolkit; UNKNOWN if it may be one."""
    if isinstance(role := peek(pod.labels, ROLE), str):
        return f"its label {ROLE} is {role}"
    if peek(pod.labels, PART_OF) == OURS:
        return f"its label {PART_OF} is {OURS}"
    return engines.in_pod(pod)


def is_whole(resource: Resource, thing: KubernetesObject) -> bool:
    """Return whether a pod in this object says everything: no patch, and no chart's values."""
    return not thing.partial and not resource.type.startswith("kubernetes:helm.sh/")


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    for thing in objects_in(resource):
        whole = is_whole(resource, thing)
        for pod in pod_specs(thing):
            why = sensitive(pod)
            if why is None or is_gpu_system_daemon(thing, pod):
                continue
            found = _breaches(thing, pod, whole=whole)
            if isinstance(why, str):
                yield from (_fault(thing, breach, why) for breach in found)
            elif any(found):
                yield _may_be_an_engine(thing, pod)


def _breaches(thing: KubernetesObject, pod: PodSpec, *, whole: bool) -> Iterator[Breach]:
    """Yield breaches that no other rule names: not what opens the node, nor an engine's ports."""
    elsewhere = {access.keys for access in node_access(pod)}
    if engines.in_pod(pod) is None:
        yield from host_ports(pod)
    for breach in breaches(thing, pod, whole=whole):
        opened = any(keys[: len(breach.keys)] == breach.keys for keys in elsewhere)
        if not opened:
            yield breach


def _fault(thing: KubernetesObject, breach: Breach, why: str) -> Fault:
    unknown = breach.given is UNKNOWN
    start = "is not known, so that nobody can tell whether it " if unknown else ""
    return Fault(
        key=thing.path(*breach.keys),
        given=breach.given,
        reason=f"{start}{breach.reason} (the pod must be restricted, since {why})",
        remedy=breach.remedy,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )


def _may_be_an_engine(thing: KubernetesObject, pod: PodSpec) -> Fault:
    return Fault(
        key=thing.path(*pod.keys),
        reason="may be an engine, since not all of it is known, and is not restricted",
        remedy="give it the securityContext of Pod Security restricted, or a known image",
        verdict=Verdict.UNDETERMINABLE,
    )


RULE: Final = Rule(
    code="S1",
    name="engine-pods-are-restricted",
    description="Engines and the toolkit's pods meet Pod Security restricted, save for GPU needs.",
    family=Family.PODS,
    severity=Severity.HIGH,
    remediation=(
        "Set runAsNonRoot: true and seccompProfile RuntimeDefault for the pod, and "
        "allowPrivilegeEscalation: false with capabilities drop [ALL] for each container."
    ),
    references=(
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted",
        "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
