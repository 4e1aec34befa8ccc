"""Pod specifications anywhere in a Kubernetes object, and the containers in them.

Workloads, CronJobs and custom resources (LeaderWorkerSet, RayCluster, InferenceService, Rollout)
all hold pod specifications somewhere; they are found by their shape, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Body, Value, elements, is_body, once, peek

CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")

# Where built-in kinds keep their pod specification (kubernetes.io/docs/reference/kubernetes-api).
_POD_SPEC_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
# Kinds that hold no pods and may hold much text.
_WITHOUT_PODS: Final = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition", "Event"})
# API domains whose objects hold patterns of pods: what other pods must, or must not, look like.
PATTERN_DOMAINS: Final = ("kyverno.io", "gatekeeper.sh")
_DEEPEST: Final = 40  # deeper than any API type nests


@dataclass(frozen=True, kw_only=True)
class PodSpec:
    """One pod specification: its body, the keys that lead to it, and its pods' labels."""

    body: Body
    keys: tuple[str | int, ...]
    labels: Value
    labels_keys: tuple[str | int, ...]

    def lists(self) -> Iterator[tuple[str, Value]]:
        """Yield name and value of each list of containers that is present."""
        for name in CONTAINER_LISTS:
            if self.body.get(name) is not None:
                yield name, self.body[name]

    def containers(self) -> Iterator[tuple[tuple[str | int, ...], Body]]:
        """Yield the containers of every list, each with the keys that lead to it."""
        for name, listed in self.lists():
            for index, container in elements(listed):
                if is_body(container):
                    yield (*self.keys, name, index), container


def pod_specs(thing: KubernetesObject) -> Iterator[PodSpec]:
    """Yield every pod specification in the object, with keys from the object's own body."""
    yield from once(thing, "_pod_specs", lambda: tuple(_pod_specs(thing)))


def _pod_specs(thing: KubernetesObject) -> Iterator[PodSpec]:
    if thing.kind not in _WITHOUT_PODS and not is_of(thing.group, PATTERN_DOMAINS):
        labels = _Labels(peek(thing.body, "metadata", "labels"), ("metadata", "labels"))
        yield from _search(thing.body, (), labels, _POD_SPEC_KEYS.get(thing.kind))


def is_of(group: str, domains: tuple[str, ...]) -> bool:
    """Return whether an API group is one of these domains or below one."""
    return any(group == domain or group.endswith(f".{domain}") for domain in domains)


def unknown_pod_spec(thing: KubernetesObject) -> tuple[str, ...] | None:
    """Return the keys of a built-in kind's pod specification if that is not known yet."""
    keys = _POD_SPEC_KEYS.get(thing.kind)
    return keys if keys is not None and peek(thing.body, *keys) is UNKNOWN else None


@dataclass(frozen=True)
class _Labels:
    value: Value
    keys: tuple[str | int, ...]


def _search(
    value: Value, keys: tuple[str | int, ...], labels: _Labels, expected: tuple[str, ...] | None
) -> Iterator[PodSpec]:
    """Yield pod specifications by shape, and the one at the ``expected`` keys in any case."""
    if len(keys) > _DEEPEST:
        return
    for index, element in elements(value):
        yield from _search(element, (*keys, index), labels, expected)
    if not is_body(value):
        return
    if keys == expected or any(_is_container_list(value.get(name)) for name in CONTAINER_LISTS):
        yield PodSpec(body=value, keys=keys, labels=labels.value, labels_keys=labels.keys)
    own = value.get("metadata")
    if keys and (is_body(own) or own is UNKNOWN):  # a template has metadata of its own
        labels = _Labels(peek(own, "labels"), (*keys, "metadata", "labels"))
    for key, child in value.items():
        if key not in CONTAINER_LISTS:
            yield from _search(child, (*keys, key), labels, expected)


def is_container_list(key: str, value: Value) -> bool:
    """Return whether a key and its value make whatever holds them a pod specification."""
    return key in CONTAINER_LISTS and _is_container_list(value)


def _is_container_list(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(is_body(element) or element is UNKNOWN for element in value)
    return value is UNKNOWN
