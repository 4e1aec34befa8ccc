"""The Services that a route leads to, found by shape in whatever kind of route there is.

Ingress, Gateway API, Istio, Traefik, Contour, OpenShift, NGINX, Kong, APISIX and the AWS target
group binding each write a reference in their own way; all of them name a Service, and most a port,
below a key that says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Body, Value, elements, is_body, number, peek

Keys = tuple[str | int, ...]

# Keys below which a reference stands, in any of the kinds.
_REFERENCE: Final = frozenset(
    {
        "alternateBackends",
        "backend",
        "backendRef",
        "backendRefs",
        "backends",
        "clusters",
        "defaultBackend",
        "destination",
        "mirror",
        "mirroring",
        "mirrors",
        "requestMirror",
        "service",
        "serviceRef",
        "services",
        "to",
        "upstreams",
    }
)
# Keys that lead to references; an unknown value there may hold any.
_STRUCTURE: Final = _REFERENCE | frozenset(
    {
        "action",
        "errors",
        "filters",
        "http",
        "paths",
        "route",
        "routes",
        "rules",
        "spec",
        "tcp",
        "tcpproxy",
        "weighted",
    }
)
# Keys that hold names which are no backends.
_NO_BACKENDS: Final = frozenset(
    {"parentRefs", "match", "matches", "metadata", "status", "middlewares", "plugins"}
)
_DEEPEST: Final = 16  # a Traefik mirror of a weighted service of a route is 9 deep


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One reference: where it is, and name, namespace, port and kind of what it names."""

    keys: Keys
    name: Value
    namespace: Value = None
    port: Value = None
    kind: Value = "Service"


def backends_of(route: KubernetesObject) -> Iterator[Backend]:
    """Yield every backend of a route; the name of one that is not known yet is UNKNOWN."""
    yield from _search(route.body, (), _DEEPEST)


def _search(value: Value, keys: Keys, deepest: int) -> Iterator[Backend]:
    if not is_body(value) or not deepest:
        return
    for key, child in value.items():
        place = (*keys, key)
        if key in _NO_BACKENDS:
            continue
        for where, element in _one_or_many(child, place):
            if element is UNKNOWN and key in _STRUCTURE:
                yield Backend(keys=where, name=UNKNOWN)
            if key in _REFERENCE:
                yield from _reference(element, where, beside=value)
            yield from _search(element, where, deepest - 1)


def _one_or_many(child: Value, place: Keys) -> Iterator[tuple[Keys, Value]]:
    if isinstance(child, tuple):
        yield from (((*place, index), element) for index, element in elements(child))
    else:
        yield place, child


def _reference(value: Value, keys: Keys, *, beside: Body) -> Iterator[Backend]:
    """Yield the backend that a value names, if it names one itself."""
    if isinstance(value, str) and value:
        yield _of_text(value, keys, beside.get("port"))
    if not is_body(value):
        return
    for key in ("serviceName", "host", "service", "name"):
        named = value.get(key)
        if named is UNKNOWN or isinstance(named, str):
            if key != "service":  # found again below, as a reference of its own
                yield _named(value, key, keys)
            return
    if is_body(value.get("resource")):  # an Ingress may lead to any object
        resource = value["resource"]
        kind, name = peek(resource, "kind"), peek(resource, "name")
        yield Backend(keys=(*keys, "resource", "name"), name=name, kind=kind)


def _named(value: Body, key: str, keys: Keys) -> Backend:
    port = value.get("servicePort", value.get("port"))
    if is_body(port):  # {number: 80} or {name: http}
        port = port.get("number", port.get("name"))
    name, namespace = _split_host(value[key]) if key == "host" else (value[key], None)
    kind = value.get("kind")
    return Backend(
        keys=(*keys, key),
        name=name,
        namespace=value.get("namespace", namespace),
        port=port,
        kind="Service" if kind is None else kind,
    )


def _of_text(text: str, keys: Keys, beside: Value) -> Backend:
    """Return the backend of a text such as ``https://llama.engines:8000``."""
    host, _, port = re.sub(r"^[a-z]+://", "", text).partition("/")[0].partition(":")
    name, namespace = _split_host(host)
    port_of_text = number(port)
    known = beside if port_of_text is None else port_of_text
    return Backend(keys=keys, name=name, namespace=namespace, port=known)


def _split_host(host: Value) -> tuple[Value, Value]:
    """Return name and namespace of a Service from its DNS name, in whatever length."""
    if not isinstance(host, str):
        return host, None
    name, _, rest = host.partition(".")
    namespace = rest.partition(".")[0]
    return name, namespace or None
