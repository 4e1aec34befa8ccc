"""What is deployed together with the resource that is judged, as far as it is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from policy import engines
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.pods import PodSpec, pod_specs
from policy.resources import UNKNOWN, Resource, Value, peek
from policy.selectors import Requirements, may_match


@dataclass(frozen=True, kw_only=True)
class PlacedPod:
    """A pod specification with the object that holds it, and why it is an engine."""

    spec: PodSpec
    thing: KubernetesObject
    evidence: engines.Evidence

    @property
    def namespace(self) -> Value:
        """The pod's namespace: None where the deployment chooses one, UNKNOWN where not known."""
        return namespace_of(self.thing)


@dataclass(frozen=True, eq=False)
class Estate:
    """Every resource of an environment, a folder of manifests, or a deployed stack.

    ``complete`` is true where all of them are known; only then does absence mean anything, and
    only then may a rule acquit a resource by what another one says. A policy of the pack that
    judges resource by resource, and the guard of a running program, know ``ALONE``.
    """

    resources: tuple[Resource, ...] = ()
    complete: bool = False

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> Estate:
        """Return the whole estate that these resources are."""
        return cls(resources=tuple(resources), complete=True)

    @cached_property
    def objects(self) -> tuple[tuple[Resource, KubernetesObject], ...]:
        """Every Kubernetes object with the resource that declares it, in order."""
        return tuple(
            (resource, thing)
            for resource in self.resources
            if is_kubernetes(resource.type)
            for thing in objects_in(resource)
        )

    @cached_property
    def pods(self) -> tuple[PlacedPod, ...]:
        """Every pod specification of every workload, custom resources included."""
        return tuple(pod for _, thing in self.objects for pod in placed_pods(thing))

    @cached_property
    def has_engines(self) -> bool:
        """Whether any pod of the estate is, or may be, an engine."""
        return any(pod.evidence is not None for pod in self.pods)

    @cached_property
    def engine_namespaces(self) -> frozenset[str]:
        """The namespaces, as far as they are named, that some engine is in."""
        engines_ = (pod.namespace for pod in self.pods if isinstance(pod.evidence, str))
        return frozenset(namespace for namespace in engines_ if isinstance(namespace, str))

    def placed(self, kind: str, namespace: Value) -> tuple[KubernetesObject, ...]:
        """Return the objects of one kind that say they are in a namespace, or say None."""
        return self._by_place.get((kind, namespace), ())

    def of_kind(self, kind: str) -> tuple[KubernetesObject, ...]:
        """Return the objects of one kind, of whatever API group."""
        return self._by_kind.get(kind, ())

    def named(self, kind: str, name: Value, namespace: Value) -> Iterator[KubernetesObject]:
        """Yield the objects that a reference by kind, name and namespace may mean."""
        for thing in self._by_name.get((kind, name), ()) if isinstance(name, str) else ():
            if may_share(namespace_of(thing), namespace):
                yield thing

    def selected(self, requirements: Requirements, namespace: Value) -> Iterator[PlacedPod]:
        """Yield the pods of a namespace that a selector may select."""
        for pod in self._candidates(requirements):
            same = may_share(pod.namespace, namespace)
            if same and may_match(requirements, pod.spec.labels):
                yield pod

    def _candidates(self, requirements: Requirements) -> tuple[PlacedPod, ...]:
        """Return the fewest pods among which all that a selector may select are."""
        fewest = self.pods
        for one in requirements:
            if one.is_narrow and UNKNOWN not in one.values:
                found = (self._by_label.get((one.key, value), ()) for value in one.values)
                pods = (*self._of_unknown_labels, *(pod for pods in found for pod in pods))
                fewest = min(fewest, pods, key=len)
        return fewest

    @cached_property
    def _by_label(self) -> Mapping[tuple[str, Value], tuple[PlacedPod, ...]]:
        index: defaultdict[tuple[str, Value], list[PlacedPod]] = defaultdict(list)
        for pod in self.pods:
            for key, value in _known_labels(pod.spec.labels):
                index[key, value].append(pod)
        return {key: tuple(pods) for key, pods in index.items()}

    @cached_property
    def _of_unknown_labels(self) -> tuple[PlacedPod, ...]:
        return tuple(pod for pod in self.pods if _has_unknown_labels(pod.spec.labels))

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[KubernetesObject, ...]]:
        index: defaultdict[str, list[KubernetesObject]] = defaultdict(list)
        for _, thing in self.objects:
            index[thing.kind].append(thing)
        return {kind: tuple(things) for kind, things in index.items()}

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, Value], tuple[KubernetesObject, ...]]:
        index: defaultdict[tuple[str, Value], list[KubernetesObject]] = defaultdict(list)
        for _, thing in self.objects:
            index[thing.kind, namespace_of(thing)].append(thing)
        return {key: tuple(things) for key, things in index.items()}

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, Value], tuple[KubernetesObject, ...]]:
        index: defaultdict[tuple[str, Value], list[KubernetesObject]] = defaultdict(list)
        for _, thing in self.objects:
            index[thing.kind, name_of(thing)].append(thing)
        return {key: tuple(things) for key, things in index.items()}


ALONE: Final = Estate()


def placed_pods(thing: KubernetesObject) -> Iterator[PlacedPod]:
    """Yield the pod specifications of one object."""
    for spec in pod_specs(thing):
        yield PlacedPod(spec=spec, thing=thing, evidence=engines.in_pod(spec))


def name_of(thing: KubernetesObject) -> Value:
    """Return the name that an object says it has."""
    return peek(thing.body, "metadata", "name")


def namespace_of(thing: KubernetesObject) -> Value:
    """Return the namespace that an object says it has; None leaves it to whoever deploys it."""
    return peek(thing.body, "metadata", "namespace")


def may_share(one: Value, other: Value) -> bool:
    """Return whether two namespaces may be the same one."""
    return not (isinstance(one, str) and isinstance(other, str)) or one == other


def _known_labels(labels: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(labels, Mapping):
        yield from ((key, value) for key, value in labels.items() if isinstance(value, str))


def _has_unknown_labels(labels: Value) -> bool:
    return labels is UNKNOWN or (isinstance(labels, Mapping) and UNKNOWN in labels.values())
