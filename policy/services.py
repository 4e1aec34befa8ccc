"""Services that leave the cluster: load balancers, node ports and external addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.estate import Estate
from policy.internal_services import (
    AWS,
    internal_verdict,
    public_addresses,
    public_annotations,
)
from policy.labels import GATEWAY, ROLE
from policy.objects import KubernetesObject
from policy.reach import Reach, is_gateway, reach_of
from policy.resources import UNKNOWN, Value, elements, peek
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

_USE_CLUSTER_IP: Final = "use type ClusterIP, and let the gateway serve it"
_MAKE_IT_INTERNAL: Final = (
    "set spec.loadBalancerClass service.k8s.aws/nlb with annotation "
    f"{AWS}scheme: internal, or, outside a cloud, your own class with private "
    "spec.loadBalancerSourceRanges"
)
# kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types
_INSIDE: Final = frozenset({"", "clusterip", "externalname"})
# Annotations by which others publish a Service that is of type ClusterIP.
# cloud.google.com/kubernetes-engine/docs/how-to/standalone-neg
_STANDALONE_NEG: Final = "cloud.google.com/neg"
_PUBLISHING: Final = (
    "tailscale.com/expose",  # tailscale.com/kb/1439/kubernetes-operator-cluster-ingress
    _STANDALONE_NEG,
    "getambassador.io/config",  # routes written on the Service
    "skupper.io/proxy",  # skupper.io/docs/declarative
)


@dataclass(frozen=True, kw_only=True)
class _WayOut:
    keys: Keys
    given: Value
    load_balancer: bool = False
    by_type: bool = False


def service_faults(service: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each way in which a Service lets the world reach what it should not."""
    reach = reach_of(service, estate)
    for way in _ways_out(service):
        yield from _way_faults(service, way, reach, estate)
    if reach.why is not None:
        yield from _published_by_others(service, reach.why)
    if service.partial and peek(service.body, "spec", "type") is None:
        yield from _of_a_patch(service, reach)


def _way_faults(
    service: KubernetesObject, way: _WayOut, reach: Reach, estate: Estate
) -> Iterator[Fault]:
    if reach.why is not None:
        yield _refused(service, way, f"would publish an engine, since {reach.why}")
    elif way.load_balancer and is_gateway(service):
        yield from _not_internal(service, way, estate)
    elif not (way.by_type and reach.harmless):
        yield _outside_the_gateway(service, way, reach, estate)


def _ways_out(service: KubernetesObject) -> Iterator[_WayOut]:
    spec = peek(service.body, "spec")
    type_ = peek(spec, "type")
    if type_ is UNKNOWN:
        yield _WayOut(keys=("spec",) if spec is UNKNOWN else ("spec", "type"), given=UNKNOWN)
    elif type_ is not None and str(type_).lower() not in _INSIDE:
        is_load_balancer = str(type_).lower() == "loadbalancer"
        keys: Keys = ("spec", "type")
        yield _WayOut(keys=keys, given=type_, load_balancer=is_load_balancer, by_type=True)
    addresses = peek(spec, "externalIPs")
    if addresses is UNKNOWN and spec is not UNKNOWN:
        yield _WayOut(keys=("spec", "externalIPs"), given=UNKNOWN)
    for index, address in elements(addresses):
        yield _WayOut(keys=("spec", "externalIPs", index), given=address)


def _refused(service: KubernetesObject, way: _WayOut, reason: str) -> Fault:
    unknown = way.given is UNKNOWN
    return Fault(
        key=service.path(*way.keys),
        given=way.given,
        reason=f"is not known, and may be one that {reason}" if unknown else reason,
        remedy=_USE_CLUSTER_IP,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )


def _outside_the_gateway(
    service: KubernetesObject, way: _WayOut, reach: Reach, estate: Estate
) -> Fault:
    """Refuse by default; where all else is known, say what keeps the Service from being cleared."""
    if not (estate.complete and way.by_type and reach.unclear) or is_gateway(service):
        return _refused(service, way, _why_only_the_gateway(way))
    return Fault(
        key=service.path(*way.keys),
        given=way.given,
        reason=f"may publish an engine, since {reach.unclear}",
        remedy=_USE_CLUSTER_IP,
        verdict=Verdict.UNDETERMINABLE,
    )


def _why_only_the_gateway(way: _WayOut) -> str:
    if way.load_balancer:
        return f"is for the gateway alone, whose Service selects {ROLE}: {GATEWAY}"
    return "opens a port on every node, past the gateway's load balancer"


def _not_internal(service: KubernetesObject, way: _WayOut, estate: Estate) -> Iterator[Fault]:
    verdict = internal_verdict(service, estate)
    if verdict is not None:
        maybe = "may be" if verdict is Verdict.UNDETERMINABLE else "is"
        yield Fault(
            key=service.path(*way.keys),
            given=way.given,
            reason=f"{maybe} public, since nothing makes the gateway's load balancer internal",
            remedy=_MAKE_IT_INTERNAL,
            verdict=verdict,
        )
    for keys, address in public_addresses(service):
        yield Fault(
            key=service.path(*keys),
            given=address,
            reason="is public, whatever the Service asks for",
            remedy=f"delete the load balancer, and {_MAKE_IT_INTERNAL}",
        )
    if verdict is None and not _keeps_nodes_closed(service):
        yield Fault(
            key=service.path("spec", "allocateLoadBalancerNodePorts"),
            reason="is not false, so that every node listens for the gateway, too (k8s#69845)",
            remedy="set it to false if the load balancer reaches pods by their addresses",
            verdict=Verdict.WARN,
        )


def _keeps_nodes_closed(service: KubernetesObject) -> bool:
    """Return whether no node listens, or the cloud's own controller needs the nodes to."""
    spec = peek(service.body, "spec")
    closed = peek(spec, "allocateLoadBalancerNodePorts") in (False, "false", UNKNOWN)
    return closed or not isinstance(peek(spec, "loadBalancerClass"), str)


def _published_by_others(service: KubernetesObject, why: str) -> Iterator[Fault]:
    for name in _PUBLISHING:
        given = peek(service.body, "metadata", "annotations", name)
        inside = given in (None, False, "false") or (
            name.endswith("neg") and _is_ingress_neg(given)
        )
        if not inside:
            yield Fault(
                key=service.path("metadata", "annotations", name),
                reason=f"would publish an engine past the gateway, since {why}",
                remedy="remove it, and let the gateway serve the engine",
                verdict=Verdict.UNDETERMINABLE if given is UNKNOWN else Verdict.FAIL,
            )


def _is_ingress_neg(given: Value) -> bool:
    """Return whether an annotation only speaks of Ingresses, which are judged themselves."""
    return isinstance(given, str) and "exposed_ports" not in given


def _of_a_patch(service: KubernetesObject, reach: Reach) -> Iterator[Fault]:
    """Judge what a Patch changes about a Service that may be a load balancer already."""
    for keys, given in public_annotations(service):
        yield Fault(
            key=service.path(*keys),
            given=given,
            reason="would make a load balancer public",
            remedy="remove it, and write the Service as a whole",
        )
    if reach.why is not None and peek(service.body, "spec", "selector") is not None:
        yield Fault(
            key=service.path("spec", "selector"),
            reason=f"leads a Service, public perhaps, to an engine, since {reach.why}",
            remedy="write the Service as a whole, so that its type is seen",
            verdict=Verdict.UNDETERMINABLE,
        )
