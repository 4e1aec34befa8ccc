"""What a Service leads to: engines, something else for certain, or nobody knows.

Judged by what the Service reaches and not by what it looks like: its selector, its target ports,
and, where the rest of the estate is known, the pods that it selects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from policy import engines
from policy.estate import Estate, PlacedPod, namespace_of
from policy.labels import GATEWAY, ROLE
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, is_body, number, peek
from policy.selectors import of_labels

_OTHER_PROTOCOLS: Final = frozenset({"UDP", "SCTP"})  # engines speak HTTP over TCP
_GATEWAY_WORDS: Final = (GATEWAY, "envoy")
# What is called so hands requests on, and so is as public as what stands behind it.
_RELAY_WORDS: Final = (*_GATEWAY_WORDS, "litellm", "router", "proxy")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Where a Service leads.

    ``why`` says why it leads to an engine. ``harmless`` holds if everything that it selects is
    known and no engine. ``unclear`` says what keeps anyone from telling.
    """

    why: str | None = None
    harmless: bool = False
    unclear: str | None = None


def reach_of(service: KubernetesObject, estate: Estate) -> Reach:
    """Return where a Service leads, from itself and from the pods that it selects."""
    why = _by_labels(service)
    if why is not None:
        return Reach(why=why)
    pods = tuple(_selected(service, estate))
    for pod in pods:
        if isinstance(pod.evidence, str):
            return Reach(
                why=f"it selects the pods of {_words(pod)}, an engine since {pod.evidence}"
            )
    why = None if selects_gateway_role(service) else _by_ports(service, pods)
    if why is not None:
        return Reach(why=why)
    unclear = _what_is_unclear(service, pods)
    harmless = estate.complete and unclear is None and not _hands_on(service, estate)
    return Reach(harmless=harmless, unclear=unclear)


def selects_gateway_role(service: KubernetesObject) -> bool:
    """Return whether a Service selects pods by the gateway's role."""
    return peek(service.body, "spec", "selector", ROLE) == GATEWAY


def is_gateway(service: KubernetesObject) -> bool:
    """Return whether a Service selects the gateway's pods, which is more than saying that it does.

    Selectors that other tools write may lack the role; then the Service must carry it and select
    something that is called a gateway, or Envoy, which is one.
    """
    selector = peek(service.body, "spec", "selector")
    if not is_body(selector):
        return False
    if ROLE in selector:
        return selector[ROLE] == GATEWAY
    return service.label(ROLE) == GATEWAY and _is_called(selector.values(), _GATEWAY_WORDS)


def _by_labels(service: KubernetesObject) -> str | None:
    selector = peek(service.body, "spec", "selector")
    own = peek(service.body, "metadata", "labels")
    for subject, labels in (("selector's", selector), ("label", own)):
        why = engines.in_labels(labels)
        if isinstance(why, str):
            return f"its {subject} {why}"
    return None


def _selected(service: KubernetesObject, estate: Estate) -> Iterator[PlacedPod]:
    requirements = of_labels(peek(service.body, "spec", "selector"))
    if requirements:
        yield from estate.selected(requirements, namespace_of(service))


def _by_ports(service: KubernetesObject, pods: tuple[PlacedPod, ...]) -> str | None:
    for _, port in elements(peek(service.body, "spec", "ports")):
        if peek(port, "protocol") in _OTHER_PROTOCOLS:
            continue
        for words, target in _targets(port, pods):
            why = engines.on_port(target)
            if isinstance(why, str):
                return f"its {words} {why}"
    return None


def _targets(port: Value, pods: tuple[PlacedPod, ...]) -> Iterator[tuple[str, Value]]:
    """Yield the ports of pods that a Service's port leads to, with words for each.

    A name means whatever the pods call so; as long as no pod says it, the Service's own port is
    the best hint that there is.
    """
    target = peek(port, "targetPort")
    if target is None or target == "" or number(target) == 0:
        yield "target", peek(port, "port")
    elif number(target) is not None:
        yield "target", target
    elif isinstance(target, str):
        named = tuple(_ports_called(target, pods))
        yield from ((f"target {target},", found) for found in named)
        if not named:
            yield f"target is {target}, and its", peek(port, "port")


def _ports_called(name: str, pods: tuple[PlacedPod, ...]) -> Iterator[Value]:
    for pod in pods:
        for _, container in pod.spec.containers():
            for _, port in elements(container.get("ports")):
                if peek(port, "name") == name:
                    yield peek(port, "containerPort")


def _what_is_unclear(service: KubernetesObject, pods: tuple[PlacedPod, ...]) -> str | None:
    selector = peek(service.body, "spec", "selector")
    if selector is UNKNOWN:
        return "its selector is not known"
    if not selector:
        return "it selects no pods itself"
    if not pods:
        return "no pod that it selects is seen here"
    if any(pod.evidence is UNKNOWN for pod in pods):
        return "not all is known of the pods that it selects"
    ports = peek(service.body, "spec", "ports")
    return "its ports are not known" if ports is UNKNOWN or _unknown_target(ports) else None


def _unknown_target(ports: Value) -> bool:
    return any(
        port is UNKNOWN or UNKNOWN in (peek(port, "targetPort"), peek(port, "port"))
        for _, port in elements(ports)
    )


def _hands_on(service: KubernetesObject, estate: Estate) -> bool:
    """Return whether a Service is of something that stands between callers and engines.

    That is so for every role of the contract but the engine's own, which has been refused.
    """
    selector = peek(service.body, "spec", "selector")
    if not is_body(selector):
        return False
    if ROLE in selector or service.label(ROLE) is not None or is_gateway(service):
        return True
    names = (*selector.values(), peek(service.body, "metadata", "name"))
    return estate.has_engines and _is_called(names, _RELAY_WORDS)


def _is_called(names: Iterable[Value], words: tuple[str, ...]) -> bool:
    texts = [name.lower() for name in names if isinstance(name, str)]
    return any(word in text for text in texts for word in words)


def _words(pod: PlacedPod) -> str:
    name = peek(pod.thing.body, "metadata", "name")
    return f"{pod.thing.kind} {name}" if isinstance(name, str) else f"a {pod.thing.kind}"
