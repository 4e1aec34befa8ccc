"""Ingresses and routes of every kind that lead past the gateway.

A route names a Service, and what that Service selects is written elsewhere. Where the Service is
seen, it decides. Where it is not, only a backend that is called a gateway passes; one that is
called an engine fails, and any other cannot be determined, which counts as exposure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.backends import Backend, backends_of
from policy.estate import Estate, namespace_of
from policy.labels import GATEWAY
from policy.objects import KubernetesObject
from policy.reach import Reach, is_gateway, reach_of
from policy.references import is_granted
from policy.resources import Value, elements, peek
from policy.rule import Fault, Verdict

GATEWAY_API: Final = "gateway.networking.k8s.io"
# A kind is a route by its name, whatever its group: Ingress, HTTPRoute, IngressRoute, RouteGroup,
# VirtualService, VirtualServer, HTTPProxy, TransportServer, TCPIngress, Mapping, …
_ROUTE: Final = re.compile(
    r"\w*(?:Route|Ingress)(?:TCP|UDP|Group|s)?|HTTPProxy|VirtualService|VirtualServer(?:Route)?"
    r"|TransportServer|TraefikService|Middleware|\w*Mapping|TargetGroupBinding|RouteTable|Upstream"
)
_MESH: Final = "mesh"  # istio.io/latest/docs/reference/config/networking/virtual-service
_REMEDY: Final = "lead it to the gateway's Service, which checks keys and allow-lists paths"


def is_route(thing: KubernetesObject) -> bool:
    """Return whether an object leads requests from outside to Services."""
    return _ROUTE.fullmatch(thing.kind) is not None and not _stays_inside(thing)


def route_faults(route: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each backend of a route that is not the gateway."""
    why = engines.in_labels(peek(route.body, "metadata", "labels"))
    own = Reach(why=f"its label {why}") if isinstance(why, str) else None
    for backend in backends_of(route):
        yield from _backend_faults(route, backend, own or _reach(route, backend, estate), estate)


def _backend_faults(
    route: KubernetesObject, backend: Backend, reach: Reach, estate: Estate
) -> Iterator[Fault]:
    management = engines.is_management(backend.port)
    ungranted = _ungranted(route, backend, estate)
    if reach.why is not None:
        reason, verdict = f"would publish an engine, since {reach.why}", Verdict.FAIL
    elif management is not None:
        reason, verdict = f"would publish what is not for callers, since {management}", Verdict.FAIL
    elif ungranted is not None:
        reason, verdict = ungranted, Verdict.UNDETERMINABLE
    elif reach.harmless:
        return
    else:
        why = reach.unclear or "its Service stands between callers and engines, or may"
        reason = f"may be an engine's Service, since {why}"
        verdict = Verdict.UNDETERMINABLE
    yield Fault(
        key=route.path(*backend.keys),
        given=backend.name if isinstance(backend.name, str) else None,
        reason=reason,
        remedy=_REMEDY,
        verdict=verdict,
    )


def _reach(route: KubernetesObject, backend: Backend, estate: Estate) -> Reach:
    """Return what a backend leads to: by its name and port, and by the Service if it is seen."""
    why = _by_reference(backend)
    if why is not None:
        return Reach(why=why)
    if not isinstance(backend.name, str):
        return Reach(unclear="its name is not known")
    if backend.kind != "Service":
        return Reach(unclear=f"it is of kind {backend.kind}")
    namespace = namespace_of(route) if backend.namespace is None else backend.namespace
    return _reach_by_name(backend.name, list(_services(backend.name, namespace, estate)), estate)


def _reach_by_name(name: str, services: list[KubernetesObject], estate: Estate) -> Reach:
    found = [reach_of(service, estate) for service in services]
    bad = next((one for one in found if one.why is not None), None)
    if bad is not None:
        return bad
    if GATEWAY in name or (services and all(map(is_gateway, services))):
        return Reach(harmless=True)
    if not found:
        return Reach(unclear="it is not called a gateway, and its Service is not seen here")
    return found[0] if len(found) == 1 else Reach(unclear="several Services have its name")


def _services(name: str, namespace: Value, estate: Estate) -> Iterator[KubernetesObject]:
    for service in estate.named("Service", name, namespace):
        if not service.group:
            yield service


def _by_reference(backend: Backend) -> str | None:
    if backend.kind == "InferencePool":  # gateway-api-inference-extension.sigs.k8s.io
        return "an InferencePool is a set of engines"
    if isinstance(backend.name, str) and engines.names_an_engine(backend.name):
        return "its name is an engine's"
    why = engines.on_port(backend.port)
    return f"its {why}" if isinstance(why, str) else None


def _ungranted(route: KubernetesObject, backend: Backend, estate: Estate) -> str | None:
    """Return why a backend in another namespace may not be one that was granted."""
    own, other = namespace_of(route), backend.namespace
    if route.group != GATEWAY_API or other is None or other == own:
        return None
    if is_granted(route, own, backend.kind, backend.name, other, estate):
        return None
    return "is in another namespace, and no ReferenceGrant there that allows it is seen here"


def _stays_inside(thing: KubernetesObject) -> bool:
    """Return whether a route is of a mesh: for traffic that is inside the cluster already.

    gateway-api.sigs.k8s.io/mesh: a parent of kind Service makes a route a mesh route. Istio's
    VirtualService is one without gateways, unless it has no hosts, so that another delegates to it.
    """
    spec = peek(thing.body, "spec")
    if thing.kind == "VirtualService":
        gateways = peek(spec, "gateways")
        inside = gateways is None or gateways in ((), (_MESH,))
        return inside and bool(peek(spec, "hosts"))
    parents = [peek(parent, "kind") for _, parent in elements(peek(spec, "parentRefs"))]
    return bool(parents) and all(kind in ("Service", "ServiceEntry") for kind in parents)
