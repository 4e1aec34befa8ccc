"""A pod that owns its node owns every engine, key and weight file on it.

Every pod is judged, whoever wrote it, since one pod beside an engine is enough. Exempt are the
daemons that make GPUs usable, which cannot do it otherwise: DaemonSets of the publisher's own
images and of no others. An engine's ``hostNetwork`` is left to the rule about engines' ports.
What is not known at a preview is judged again at the update, before the pod exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate
from policy.node_access import Access, host_folder, is_gpu_system_daemon, node_access
from policy.objects import KubernetesObject, has_unknown_items, is_kubernetes, objects_in
from policy.pods import PodSpec, pod_specs, unknown_pod_spec
from policy.resources import UNKNOWN, Resource, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

_REMEDY: Final = "remove it; only DaemonSets of the GPU system's published images reach into nodes"
_OPENS: Final = "may open the node to its pods"


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if has_unknown_items(resource):
        yield _unknown("items", f"holds objects that are not known, and {_OPENS}")
    for thing in objects_in(resource):
        keys = unknown_pod_spec(thing)
        if keys is not None:
            yield _unknown(thing.path(*keys), f"is not known, and {_OPENS}")
        for pod in pod_specs(thing):
            if not is_gpu_system_daemon(thing, pod):
                yield from _pod_faults(thing, pod)
        if thing.kind == "PersistentVolume" and not thing.group:
            yield from _volume_faults(thing)


def _volume_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for a folder of the node that a claim would bring into a pod unseen."""
    for source in ("hostPath", "local"):
        folder = peek(thing.body, "spec", source)
        for access in host_folder(folder, ("spec", source)):
            yield _fault(thing, access)


def _pod_faults(thing: KubernetesObject, pod: PodSpec) -> Iterator[Fault]:
    network = (*pod.keys, "hostNetwork")
    for access in node_access(pod):
        if access.keys != network or not isinstance(engines.in_pod(pod), str):
            yield _fault(thing, access)


def _fault(thing: KubernetesObject, access: Access) -> Fault:
    unknown = access.given is UNKNOWN
    return Fault(
        key=thing.path(*access.keys),
        given=access.given,
        reason=f"{'is not known, and may open' if unknown else 'opens'} {access.opens}",
        remedy=_REMEDY,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )


def _unknown(key: str, reason: str) -> Fault:
    return Fault(key=key, reason=reason, remedy=_REMEDY, verdict=Verdict.UNDETERMINABLE)


RULE: Final = Rule(
    code="S2",
    name="pods-never-own-their-node",
    description="No pod owns its node: no privilege, host namespaces, runtime socket or root.",
    family=Family.PODS,
    severity=Severity.CRITICAL,
    remediation=(
        "Remove privilege, host namespaces and host folders; ask the device plugin for devices, "
        "and the API server for facts about the node. DaemonSets of NVIDIA's images from nvcr.io, "
        "of node-feature-discovery and of the EFA device plugin are exempt."
    ),
    references=(
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline",
        "https://kubernetes.io/docs/concepts/storage/volumes/#hostpath",
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/index.html",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
