"""Gateways of the Gateway API and of Istio: who may attach routes, and for which hosts.

A listener that admits routes of every namespace lets whoever may write a route publish what he
likes under the gateway's address and certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.internal_services import AWS
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, peek
from policy.routes import GATEWAY_API
from policy.rule import Fault, Verdict
from policy.selectors import of_selector

Keys = tuple[str | int, ...]

_ISTIO: Final = "networking.istio.io"
_WITH_LISTENERS: Final = frozenset({"Gateway", "ListenerSet", "XListenerSet"})
_GROUPS: Final = (GATEWAY_API, "gateway.networking.x-k8s.io")
# Listeners of these protocols tell hosts apart (gateway-api.sigs.k8s.io/reference/spec).
_WITH_HOSTNAMES: Final = frozenset({"HTTP", "HTTPS", "TLS"})
# Classes that are public by definition
# (docs.cloud.google.com/kubernetes-engine/docs/concepts/gateway-api#gatewayclass).
_PUBLIC_CLASSES: Final = ("-external-", "-gxlb", "l7-gxlb")
_NARROW: Final = "admit routes of the Gateway's own namespace, or of namespaces named by a label"


def gateway_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each way in which a Gateway is open to more than it serves."""
    if thing.kind == "Gateway" and thing.group == _ISTIO:
        yield from _istio_faults(thing)
    elif thing.kind in _WITH_LISTENERS and thing.group in _GROUPS:
        yield from _public_faults(thing)
        spec = peek(thing.body, "spec")
        keys: Keys = ("spec", "allowedListeners", "namespaces")
        yield from _namespace_faults(thing, keys, peek(spec, "allowedListeners", "namespaces"))
        yield from _unknown(thing, ("spec",) if spec is UNKNOWN else ("spec", "listeners"))
        for index, listener in elements(peek(spec, "listeners")):
            yield from _listener_faults(thing, ("spec", "listeners", index), listener)


def _public_faults(gateway: KubernetesObject) -> Iterator[Fault]:
    class_ = peek(gateway.body, "spec", "gatewayClassName")
    if isinstance(class_, str) and any(word in class_ for word in _PUBLIC_CLASSES):
        yield _public(gateway, ("spec", "gatewayClassName"), class_)
    for keys in (("metadata",), ("spec", "infrastructure")):
        place = (*keys, "annotations", f"{AWS}scheme")
        scheme = peek(gateway.body, *place)
        if isinstance(scheme, str) and scheme != "internal":
            yield _public(gateway, place, scheme)


def _public(gateway: KubernetesObject, keys: Keys, given: str) -> Fault:
    return Fault(
        key=gateway.path(*keys),
        given=given,
        reason="makes a second, public way in beside the gateway's internal load balancer",
        remedy="use a class, or an annotation, for an internal address",
    )


def _listener_faults(gateway: KubernetesObject, keys: Keys, listener: Value) -> Iterator[Fault]:
    if listener is UNKNOWN:
        yield _fault(gateway, keys, None, "is not known, and may admit every route")
        return
    place = (*keys, "allowedRoutes", "namespaces")
    namespaces = peek(listener, "allowedRoutes", "namespaces")
    yield from _namespace_faults(gateway, place, namespaces)
    admits = peek(namespaces, "from")
    if peek(listener, "protocol") in _WITH_HOSTNAMES and admits != "All":
        yield from _hostname_faults(gateway, keys, listener, others=admits == "Selector")


def _namespace_faults(gateway: KubernetesObject, keys: Keys, namespaces: Value) -> Iterator[Fault]:
    admits = peek(namespaces, "from")
    if admits is UNKNOWN:
        where = keys if namespaces is UNKNOWN else (*keys, "from")
        yield _fault(gateway, where, None, "is not known, and may be All")
    elif admits == "All":
        reason = "lets every namespace publish what it likes by this listener"
        yield _fault(gateway, (*keys, "from"), "All", reason)
    elif admits == "Selector":
        yield from _selector_faults(gateway, (*keys, "selector"), peek(namespaces, "selector"))


def _selector_faults(gateway: KubernetesObject, keys: Keys, selector: Value) -> Iterator[Fault]:
    if selector is UNKNOWN:
        yield _fault(gateway, keys, None, "is not known, and may select every namespace")
    elif not any(one.is_narrow for one in of_selector(selector)):
        reason = "names no namespace, so that any may publish what it likes by this listener"
        yield _fault(gateway, keys, None, reason, Verdict.FAIL)


def _hostname_faults(
    gateway: KubernetesObject, keys: Keys, listener: Value, *, others: bool
) -> Iterator[Fault]:
    """Judge which hosts a listener serves: other namespaces must not be able to choose any."""
    host = peek(listener, "hostname")
    if host is not UNKNOWN and not _is_wide(host):
        return
    whose = "other namespaces" if others else "any route"
    yield Fault(
        key=gateway.path(*keys, "hostname"),
        given=host,
        reason=f"leaves it to {whose} which hosts are served",
        remedy="name the one host that the listener serves",
        verdict=_verdict(host, others=others),
    )


def _verdict(host: Value, *, others: bool) -> Verdict:
    if host is UNKNOWN:
        return Verdict.UNDETERMINABLE if others else Verdict.WARN
    return Verdict.FAIL if others else Verdict.WARN


def _is_wide(host: Value) -> bool:
    return host in (None, "") or (isinstance(host, str) and host.startswith("*"))


def _istio_faults(gateway: KubernetesObject) -> Iterator[Fault]:
    """Judge the hosts of each server, written ``namespace/host``; without one, any may bind them.

    istio.io/latest/docs/reference/config/networking/gateway#Server
    """
    yield from _unknown(gateway, ("spec", "servers"))
    for number, server in elements(peek(gateway.body, "spec", "servers")):
        keys: Keys = ("spec", "servers", number, "hosts")
        yield from _unknown(gateway, keys)
        for index, given in elements(peek(server, "hosts")):
            namespace, slash, host = str(given).rpartition("/")
            anyone = not slash or namespace == "*"
            if given is UNKNOWN:
                yield _fault(gateway, (*keys, index), None, "is not known, and may be any host")
            elif anyone and host.startswith("*"):
                reason = "lets every namespace publish what it likes by this server"
                yield _fault(gateway, (*keys, index), given, reason)


def _unknown(gateway: KubernetesObject, keys: Keys) -> Iterator[Fault]:
    if peek(gateway.body, *keys) is UNKNOWN:
        yield _fault(gateway, keys, None, "is not known, and may admit every route")


def _fault(
    gateway: KubernetesObject,
    keys: Keys,
    given: Value,
    reason: str,
    verdict: Verdict | None = None,
) -> Fault:
    """Return a fault that fails if something was given, or that cannot be determined if not."""
    unknown = Verdict.UNDETERMINABLE if given is None else Verdict.FAIL
    key = gateway.path(*keys)
    return Fault(key=key, given=given, reason=reason, remedy=_NARROW, verdict=verdict or unknown)
