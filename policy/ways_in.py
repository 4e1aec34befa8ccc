"""AWS's ways in from the internet: load balancers, accelerators and origins, and what they reach.

``internal`` that is missing means public, for every load balancer and provider
(docs.aws.amazon.com/elasticloadbalancing). Whoever carries the role of the gateway may be public,
but not lead to an engine's port.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from policy import engines
from policy.aws import aws_type, bodies, by_reference, of_types, role_of, truth
from policy.estate import Estate
from policy.labels import GATEWAY
from policy.resources import (
    UNKNOWN,
    Resource,
    Value,
    elements,
    is_body,
    key_path,
    peek,
)
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

_MODULES: Final = ("lb", "alb", "elasticloadbalancingv2", "applicationloadbalancing")
_V2: Final = frozenset(f"{module}.LoadBalancer" for module in _MODULES)
_CLASSIC: Final = frozenset(f"{module}.LoadBalancer" for module in ("elb", "elasticloadbalancing"))
_COMPONENTS: Final = frozenset(
    {"awsx.lb.ApplicationLoadBalancer", "awsx.lb.NetworkLoadBalancer", "awsx.classic.LoadBalancer"}
)
LOAD_BALANCERS: Final = _V2 | _CLASSIC | _COMPONENTS
# What leads from the internet to a load balancer that is internal itself
# (docs.aws.amazon.com/global-accelerator; docs.aws.amazon.com/AmazonCloudFront, VPC origins).
_OTHER_WAYS_IN: Final = frozenset({"globalaccelerator.Accelerator", "cloudfront.VpcOrigin"})
_LISTENERS: Final = tuple(f"{module}.Listener" for module in _MODULES)
_LISTENER_RULES: Final = tuple(f"{module}.ListenerRule" for module in _MODULES)
_TARGET_GROUPS: Final = tuple(f"{module}.TargetGroup" for module in _MODULES)
_ATTACHMENTS: Final = tuple(f"{module}.TargetGroupAttachment" for module in _MODULES)
# A Gateway Load Balancer has no public form
# (docs.aws.amazon.com/elasticloadbalancing/latest/gateway).
_NEVER_PUBLIC: Final = "gateway"
_INTERNAL_REMEDY: Final = (
    "make it internal, or tag the gateway's own load balancer with tokenworks:role = gateway"
)
_TARGET_REMEDY: Final = "let the load balancer lead to the gateway, and the gateway to engines"


def is_way_in(type_token: str) -> bool:
    """Return whether a type token is of something that may lead in from the internet."""
    return aws_type(type_token) in LOAD_BALANCERS | _OTHER_WAYS_IN


def way_in_faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for a public way in that is not the gateway's, or that leads to an engine."""
    public = _public(resource)
    if public is None:
        return
    key, given, verdict = public
    role = role_of(resource)
    if role != GATEWAY:
        certain = verdict is Verdict.FAIL and role is not UNKNOWN
        yield Fault(
            key=key,
            given=given,
            reason=f"{'is' if certain else 'may be'} open to the internet, and not the gateway's",
            remedy=_INTERNAL_REMEDY,
            verdict=Verdict.FAIL if certain else Verdict.UNDETERMINABLE,
        )
    yield from _own_targets(resource, verdict)
    yield from _joined_targets(resource, estate, verdict)


def _public(resource: Resource) -> tuple[str, Value, Verdict] | None:
    """Return key and value of what makes a resource public, or None for one that is internal."""
    if aws_type(resource.type) in _OTHER_WAYS_IN:
        enabled = truth(resource.properties.get("enabled"))
        return None if enabled is False else ("", None, Verdict.FAIL)
    if (
        resource.properties.get("loadBalancerType", resource.properties.get("type"))
        == _NEVER_PUBLIC
    ):
        return None
    if not resource.properties and aws_type(resource.type) in _COMPONENTS:
        return None  # a component of another process; its children are judged
    for key, internal, external in (("scheme", "internal", None), ("external", False, True)):
        if key in resource.properties:
            given = resource.properties[key]
            said = truth(given) if external else given
            return None if said == internal else (key, given, _verdict(given))
    given = resource.properties.get("internal")
    return None if truth(given) is True else ("internal", given, _verdict(given))


def _verdict(given: Value) -> Verdict:
    return Verdict.UNDETERMINABLE if given is UNKNOWN else Verdict.FAIL


def _own_targets(resource: Resource, verdict: Verdict) -> Iterator[Fault]:
    """Yield a fault for each engine port that a load balancer itself is told to lead to."""
    properties = resource.properties
    for keys, listener in bodies(properties.get("listeners"), "listeners"):
        yield from _target((*keys, "instancePort"), listener.get("instancePort"), verdict)
        yield from _target((*keys, "targetPort"), listener.get("targetPort"), verdict)
    for name in ("defaultTargetGroup", "vpcOriginEndpointConfig"):
        for port in ("port", "httpPort", "httpsPort"):
            yield from _target((name, port), peek(properties.get(name), port), verdict)


def _target(keys: Keys, port: Value, verdict: Verdict) -> Iterator[Fault]:
    why = engines.on_port(port) if port is not None else None
    if why is not None:
        certain = isinstance(why, str) and verdict is Verdict.FAIL
        yield Fault(
            key=key_path(*keys),
            given=port,
            reason=f"{'leads' if certain else 'may lead'} from the internet to an engine"
            f"{f', since {why}' if isinstance(why, str) else ''}",
            remedy=_TARGET_REMEDY,
            verdict=Verdict.FAIL if certain else Verdict.UNDETERMINABLE,
        )


def _joined_targets(balancer: Resource, estate: Estate, verdict: Verdict) -> Iterator[Fault]:
    """Yield a fault for each engine port that the listeners of a load balancer lead to."""
    if not estate.complete or aws_type(balancer.type) not in _V2:
        return
    reached: dict[str, Verdict] = {}
    for group, certain in _groups_of(balancer, estate):
        for port in _ports_of(group, estate):
            why = engines.on_port(port)
            if why is not None and role_of(group) != GATEWAY:
                sure = certain and isinstance(why, str) and verdict is Verdict.FAIL
                words = f"to the target group {group.name}"
                words += f", whose {why}" if isinstance(why, str) else ", whose port is not known"
                if reached.get(words) is not Verdict.FAIL:
                    reached[words] = Verdict.FAIL if sure else Verdict.UNDETERMINABLE
    for words, one in reached.items():
        may = "leads" if one is Verdict.FAIL else "may lead"
        yield Fault(
            key="", reason=f"{may} from the internet {words}", remedy=_TARGET_REMEDY, verdict=one
        )


def _groups_of(balancer: Resource, estate: Estate) -> Iterator[tuple[Resource, bool]]:
    """Yield the target groups that listeners lead to, and whether they certainly are this one's."""
    listeners = _listeners(estate)
    for known, certain in ((_key_of(balancer), True), ("", False)):
        for listener in listeners.get(known, ()):
            for reference in _forwarded(listener, estate):
                if reference is UNKNOWN:
                    yield from ((group, False) for group in _of(estate, _TARGET_GROUPS))
                elif isinstance(reference, str) and (group := by_reference(estate).get(reference)):
                    yield group, certain


def _key_of(resource: Resource) -> str:
    return resource.urn or f"{resource.type} {resource.name}"


@lru_cache(maxsize=4)
def _listeners(estate: Estate) -> Mapping[str, tuple[Resource, ...]]:
    """Return listeners by their load balancer; under "" are those whose one nobody knows."""
    index: defaultdict[str, list[Resource]] = defaultdict(list)
    for listener in _of(estate, _LISTENERS):
        reference = listener.properties.get("loadBalancerArn")
        if reference is UNKNOWN:
            index[""].append(listener)
        elif isinstance(reference, str) and (found := by_reference(estate).get(reference)):
            index[_key_of(found)].append(listener)
    return {key: tuple(listeners) for key, listeners in index.items()}


@lru_cache(maxsize=4)
def _rules(estate: Estate) -> Mapping[str, tuple[Resource, ...]]:
    """Return rules by the listener that they belong to; "" as above."""
    index: defaultdict[str, list[Resource]] = defaultdict(list)
    for rule in _of(estate, _LISTENER_RULES):
        reference = rule.properties.get("listenerArn")
        if reference is UNKNOWN:
            index[""].append(rule)
        elif isinstance(reference, str) and (found := by_reference(estate).get(reference)):
            index[_key_of(found)].append(rule)
    return {key: tuple(rules) for key, rules in index.items()}


@lru_cache(maxsize=4)
def _attached(estate: Estate) -> Mapping[str, tuple[Value, ...]]:
    """Return the ports of attachments by their target group."""
    index: defaultdict[str, list[Value]] = defaultdict(list)
    for attachment in _of(estate, _ATTACHMENTS):
        reference = attachment.properties.get("targetGroupArn")
        if isinstance(reference, str) and (found := by_reference(estate).get(reference)):
            index[_key_of(found)].append(attachment.properties.get("port"))
    return {key: tuple(ports) for key, ports in index.items()}


def _of(estate: Estate, kinds: tuple[str, ...]) -> Iterator[Resource]:
    for kind in kinds:
        yield from of_types(estate).get(kind, ())


def _forwarded(listener: Resource, estate: Estate) -> Iterator[Value]:
    """Yield the references of the target groups that a listener and its rules forward to."""
    rules = _rules(estate)
    ruled = (*rules.get(_key_of(listener), ()), *rules.get("", ()))
    lists = [listener.properties.get("defaultActions")]
    lists += [rule.properties.get("actions") for rule in ruled]
    for actions in lists:
        if actions is UNKNOWN:
            yield UNKNOWN
        for _, action in bodies(actions):
            yield action.get("targetGroupArn")
            forward = action.get("forward", action.get("forwardConfig"))
            for _, body in bodies(forward):
                for _, group in bodies(body.get("targetGroups")):
                    yield group.get("arn", group.get("targetGroupArn"))


def _ports_of(group: Resource, estate: Estate) -> Iterator[Value]:
    """Yield the ports that a target group sends to: its own, and those of its targets."""
    yield group.properties.get("port")
    for _, target in elements(group.properties.get("targets")):
        if is_body(target):
            yield target.get("port")
    yield from (port for port in _attached(estate).get(_key_of(group), ()) if port is not None)
