"""Ingresses and Gateway API routes that lead past the gateway.

An Ingress names a Service, and what that Service selects is written elsewhere. So only a backend
that is called a gateway passes; one that is called an engine fails, and any other cannot be
determined, which counts as exposure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy import engines
from policy.labels import GATEWAY
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Body, Value, elements, is_body, number, peek
from policy.rule import Fault, Verdict

# gateway-api.sigs.k8s.io/reference/spec
ROUTE_KINDS: Final = frozenset({"HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"})
_GATEWAY_API: Final = "gateway.networking.k8s.io"
_INGRESS_GROUPS: Final = frozenset({"networking.k8s.io", "extensions"})
_REMEDY: Final = "lead it to the gateway's Service, which checks keys and allow-lists paths"

Keys = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class _Backend:
    keys: Keys
    name: Value
    port: Value = None
    kind: Value = "Service"


def route_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each backend of an Ingress or route that is not the gateway."""
    if thing.kind == "Ingress" and thing.group in _INGRESS_GROUPS:
        backends = _of_ingress(thing.body)
    elif thing.kind in ROUTE_KINDS and thing.group == _GATEWAY_API and not _is_mesh(thing):
        backends = _of_route(thing.body)
    else:
        return
    why = engines.in_labels(peek(thing.body, "metadata", "labels"))
    for backend in backends:
        yield from _fault(thing, backend, f"its label {why}" if isinstance(why, str) else None)


def _fault(thing: KubernetesObject, backend: _Backend, own: str | None) -> Iterator[Fault]:
    why = own or _why_an_engine(backend)
    known = isinstance(backend.name, str)
    if why is None and isinstance(backend.name, str) and GATEWAY in backend.name:
        return
    if why is not None:
        reason = f"would publish an engine, since {why}"
    elif known:
        reason = "is not called a gateway, so that it may be an engine's Service"
    else:
        reason = "is not known, so that it may be an engine's Service"
    yield Fault(
        key=thing.path(*backend.keys),
        given=backend.name if known else None,
        reason=reason,
        remedy=_REMEDY,
        verdict=Verdict.FAIL if why is not None else Verdict.UNDETERMINABLE,
    )


def _why_an_engine(backend: _Backend) -> str | None:
    if backend.kind == "InferencePool":  # gateway-api-inference-extension.sigs.k8s.io
        return "an InferencePool is a set of engines"
    if isinstance(backend.name, str) and engines.names_an_engine(backend.name):
        return "its name is an engine's"
    why = engines.on_port(backend.port)
    return f"its {why}" if isinstance(why, str) else None


def _of_ingress(body: Body) -> Iterator[_Backend]:
    spec = peek(body, "spec")
    if spec is UNKNOWN:
        yield _Backend(keys=("spec",), name=UNKNOWN)
    for name in ("defaultBackend", "backend"):  # the latter in extensions/v1beta1
        yield from _ingress_backend(peek(spec, name), ("spec", name))
    yield from _unknown(peek(spec, "rules"), ("spec", "rules"))
    for rule_index, rule in elements(peek(spec, "rules")):
        keys: Keys = ("spec", "rules", rule_index, "http", "paths")
        paths = peek(rule, "http", "paths")
        yield from _unknown(paths, keys)
        for index, path in elements(paths):
            yield from _ingress_backend(peek(path, "backend"), (*keys, index, "backend"))


def _ingress_backend(backend: Value, keys: Keys) -> Iterator[_Backend]:
    yield from _unknown(backend, keys)
    if not is_body(backend):
        return
    service = backend.get("service")
    if service is not None:
        port = peek(service, "port")
        port = port if number(port) is not None else peek(port, "number")
        yield _Backend(keys=(*keys, "service", "name"), name=peek(service, "name"), port=port)
    elif "serviceName" in backend:
        port = backend.get("servicePort")
        yield _Backend(keys=(*keys, "serviceName"), name=backend["serviceName"], port=port)


def _of_route(body: Body) -> Iterator[_Backend]:
    rules = peek(body, "spec", "rules")
    yield from _unknown(rules, ("spec", "rules"))
    for rule_index, rule in elements(rules):
        keys: Keys = ("spec", "rules", rule_index)
        yield from _unknown(peek(rule, "backendRefs"), (*keys, "backendRefs"))
        for index, reference in elements(peek(rule, "backendRefs")):
            yield _route_backend(reference, (*keys, "backendRefs", index))
        for index, filter_ in elements(peek(rule, "filters")):
            mirror = peek(filter_, "requestMirror", "backendRef")
            if mirror is not None:
                mirror_keys = (*keys, "filters", index, "requestMirror", "backendRef")
                yield _route_backend(mirror, mirror_keys)


def _route_backend(reference: Value, keys: Keys) -> _Backend:
    kind = peek(reference, "kind")
    return _Backend(
        keys=(*keys, "name"),
        name=peek(reference, "name"),
        port=peek(reference, "port"),
        kind="Service" if kind is None else kind,
    )


def _unknown(value: Value, keys: Keys) -> Iterator[_Backend]:
    if value is UNKNOWN:
        yield _Backend(keys=keys, name=UNKNOWN)


def _is_mesh(thing: KubernetesObject) -> bool:
    """Return whether a route belongs to Services only: traffic that is inside the cluster already.

    gateway-api.sigs.k8s.io/mesh: a parent of kind Service makes a route a mesh route.
    """
    parents = [
        peek(parent, "kind") for _, parent in elements(peek(thing.body, "spec", "parentRefs"))
    ]
    return bool(parents) and all(kind == "Service" for kind in parents)
