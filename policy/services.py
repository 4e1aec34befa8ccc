"""Services that leave the cluster: load balancers, node ports and external addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy import engines
from policy.labels import GATEWAY, ROLE
from policy.networks import is_private
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, is_body, peek
from policy.rule import Fault, Verdict

_USE_CLUSTER_IP: Final = "use type ClusterIP, and let the gateway serve it"
_AWS: Final = "service.beta.kubernetes.io/aws-load-balancer-"
# Controllers that read the AWS annotations by load balancer class
# (kubernetes-sigs.github.io/aws-load-balancer-controller; EKS Auto Mode user guide).
_AWS_CLASSES: Final = frozenset({"service.k8s.aws/nlb", "eks.amazonaws.com/nlb"})
# Without such a class, only these types hand a Service to that controller; the in-tree one
# ignores the scheme annotation and goes public (aws-load-balancer-controller#2737, #3293).
_AWS_CONTROLLER_TYPES: Final = frozenset({"external", "nlb-ip"})
# cloud.google.com/kubernetes-engine/docs/how-to/internal-load-balancing;
# learn.microsoft.com/azure/aks/internal-lb
_INTERNAL_ANNOTATIONS: Final = (
    ("networking.gke.io/load-balancer-type", "internal"),
    ("cloud.google.com/load-balancer-type", "internal"),
    ("service.beta.kubernetes.io/azure-load-balancer-internal", "true"),
)
_MAKE_IT_INTERNAL: Final = (
    "set spec.loadBalancerClass service.k8s.aws/nlb with annotation "
    f"{_AWS}scheme: internal, or, outside a cloud, your own class with private "
    "spec.loadBalancerSourceRanges"
)


_GATEWAY_WORDS: Final = (GATEWAY, "envoy")


@dataclass(frozen=True, kw_only=True)
class _WayOut:
    keys: tuple[str | int, ...]
    given: Value
    load_balancer: bool = False


def service_faults(service: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each way in which a Service lets the world reach what it should not."""
    for way in _ways_out(service):
        why = _reaches_an_engine(service)
        if isinstance(why, str):
            yield _refused(service, way, f"would publish an engine, since {why}")
        elif not (way.load_balancer and _is_gateway(service)):
            yield _refused(service, way, _why_only_the_gateway(way))
        else:
            yield from _not_internal(service, way)


def _ways_out(service: KubernetesObject) -> Iterator[_WayOut]:
    spec = peek(service.body, "spec")
    type_ = peek(spec, "type")
    if type_ is UNKNOWN:
        yield _WayOut(keys=("spec",) if spec is UNKNOWN else ("spec", "type"), given=UNKNOWN)
    elif isinstance(type_, str) and type_.lower() in {"loadbalancer", "nodeport"}:
        is_load_balancer = type_.lower() == "loadbalancer"
        yield _WayOut(keys=("spec", "type"), given=type_, load_balancer=is_load_balancer)
    addresses = peek(spec, "externalIPs")
    if addresses is UNKNOWN and spec is not UNKNOWN:
        yield _WayOut(keys=("spec", "externalIPs"), given=UNKNOWN)
    for index, address in elements(addresses):
        yield _WayOut(keys=("spec", "externalIPs", index), given=address)


def _reaches_an_engine(service: KubernetesObject) -> str | None:
    """Return why a Service leads to an engine: by its selector, its labels or its ports."""
    selector = peek(service.body, "spec", "selector")
    own = peek(service.body, "metadata", "labels")
    for subject, labels in (("selector's", selector), ("label", own)):
        why = engines.in_labels(labels)
        if isinstance(why, str):
            return f"its {subject} {why}"
    if peek(selector, ROLE) == GATEWAY:
        return None  # the gateway may listen on any port
    for _, port in elements(peek(service.body, "spec", "ports")):
        target = peek(port, "targetPort")
        why = engines.on_port(peek(port, "port") if target is None else target)
        if isinstance(why, str):
            return f"its target {why}"
    return None


def _is_gateway(service: KubernetesObject) -> bool:
    """Return whether a Service selects the gateway's pods, which is more than saying that it does.

    Selectors that other tools write may lack the role; then the Service must carry it and select
    something that is called a gateway, or Envoy, which is one.
    """
    selector = peek(service.body, "spec", "selector")
    if not is_body(selector):
        return False
    if ROLE in selector:
        return selector[ROLE] == GATEWAY
    names = [value for value in selector.values() if isinstance(value, str)]
    called = any(word in name for name in names for word in _GATEWAY_WORDS)
    return called and service.label(ROLE) == GATEWAY


def _refused(service: KubernetesObject, way: _WayOut, reason: str) -> Fault:
    unknown = way.given is UNKNOWN
    return Fault(
        key=service.path(*way.keys),
        given=way.given,
        reason=f"is not known, and may be one that {reason}" if unknown else reason,
        remedy=_USE_CLUSTER_IP,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )


def _why_only_the_gateway(way: _WayOut) -> str:
    if way.load_balancer:
        return f"is for the gateway alone, whose Service selects {ROLE}: {GATEWAY}"
    return "opens a port on every node, past the gateway's load balancer"


def _not_internal(service: KubernetesObject, way: _WayOut) -> Iterator[Fault]:
    verdict = _internal_verdict(service)
    if verdict is not None:
        maybe = "may be" if verdict is Verdict.UNDETERMINABLE else "is"
        yield Fault(
            key=service.path(*way.keys),
            given=way.given,
            reason=f"{maybe} public, since nothing makes the gateway's load balancer internal",
            remedy=_MAKE_IT_INTERNAL,
            verdict=verdict,
        )


def _internal_verdict(service: KubernetesObject) -> Verdict | None:
    """Return None for a load balancer with an internal address only, or what it is instead."""
    class_ = peek(service.body, "spec", "loadBalancerClass")
    annotations = peek(service.body, "metadata", "annotations")
    scheme, kind = peek(annotations, f"{_AWS}scheme"), peek(annotations, f"{_AWS}type")
    if _is_one_of(class_, _AWS_CLASSES) or _is_one_of(kind, _AWS_CONTROLLER_TYPES):
        return _verdict_unless(scheme == "internal", unknown=scheme is UNKNOWN)
    others = [(peek(annotations, key), wanted) for key, wanted in _INTERNAL_ANNOTATIONS]
    if any(isinstance(value, str) and value.lower() == wanted for value, wanted in others):
        return None
    unknown = UNKNOWN in (class_, kind) or any(value is UNKNOWN for value, _ in others)
    ranges = [
        source for _, source in elements(peek(service.body, "spec", "loadBalancerSourceRanges"))
    ]
    own_class = isinstance(class_, str) and bool(ranges)
    private = all(isinstance(source, str) and is_private(source) for source in ranges)
    return _verdict_unless(own_class and private, unknown=unknown or UNKNOWN in ranges)


def _verdict_unless(good: bool, *, unknown: bool) -> Verdict | None:
    if good:
        return None
    return Verdict.UNDETERMINABLE if unknown else Verdict.FAIL


def _is_one_of(value: Value, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words
