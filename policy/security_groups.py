"""AWS rules that open ports to public addresses: security groups and network ACLs.

AWS has several resources for one thing: rules inline in a SecurityGroup, SecurityGroupRule,
vpc.SecurityGroupIngressRule, and the same twice in ``aws-native``. Each is read into openings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from policy.aws import aws_type, truth
from policy.networks import is_private
from policy.ports import Covered, engine_ports, ports_beside_the_web
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

_GROUPS: Final = frozenset({"ec2.SecurityGroup", "ec2.DefaultSecurityGroup"})
_GROUP_RULES: Final = frozenset(
    {
        "ec2.SecurityGroupRule",
        "ec2.SecurityGroupIngress",
        "vpc.SecurityGroupIngressRule",
    }
)
_ACLS: Final = frozenset({"ec2.NetworkAcl", "ec2.DefaultNetworkAcl"})
_ACL_RULES: Final = frozenset({"ec2.NetworkAclRule", "ec2.NetworkAclEntry"})
_INLINE_KEYS: Final = ("ingress", "ingresses", "securityGroupIngress")
_RANGE_KEYS: Final = (
    "cidrIpv4",
    "cidrIpv6",
    "cidrIp",
    "cidrBlocks",
    "ipv6CidrBlocks",
    "cidrBlock",
    "ipv6CidrBlock",
)
_PREFIX_LIST_KEYS: Final = ("prefixListId", "prefixListIds", "sourcePrefixListId")
# A network ACL forgets connections, so that answers to what nodes ask for come in through it, to
# the ports of Linux (docs.aws.amazon.com/vpc/latest/userguide/nacl-ephemeral-ports.html).
_ANSWERS: Final = (32768, 60999)
_REMEDY: Final = (
    "admit the gateway's security group or private ranges to engine ports, and nothing else"
)
_OTHER_REMEDY: Final = (
    "admit private ranges or a security group; machines are reached by Session Manager"
)


@dataclass(frozen=True, kw_only=True)
class _Opening:
    """One rule that lets traffic in, the keys that lead to it, and whether it certainly does.

    A body of None is not known yet.
    """

    body: Body | None
    keys: Keys = ()
    certain: bool = True
    acl: bool = False


def holds_group_rules(type_token: str) -> bool:
    """Return whether a type token is of a resource that can open a security group."""
    return aws_type(type_token) in _GROUPS | _GROUP_RULES


def other_port_faults(resource: Resource) -> Iterator[Fault]:
    """Yield a fault for each public source that other ports than the web's are, or may be, open to.

    Openings that are not known are refused for the engines' sake already.
    """
    for opening in _openings(resource):
        if opening.body is None:
            continue
        ports = ports_beside_the_web(opening.body)
        if ports is None:
            continue
        for keys, source in _sources(opening.body):
            for fault in _public_source(opening, (*opening.keys, *keys), source, ports):
                yield replace(fault, remedy=_OTHER_REMEDY)


def holds_ingress_rules(type_token: str) -> bool:
    """Return whether a type token is of a resource that can let traffic in."""
    return aws_type(type_token) in _GROUPS | _GROUP_RULES | _ACLS | _ACL_RULES


def ingress_faults(resource: Resource) -> Iterator[Fault]:
    """Yield a fault for each public source that an engine port is, or may be, opened to."""
    for opening in _openings(resource):
        if opening.body is None:
            yield _fault(opening.keys, UNKNOWN, "is not known, and may open engine ports")
            continue
        ports = engine_ports(opening.body)
        if ports is not None:
            for keys, source in _sources(opening.body):
                yield from _public_source(opening, (*opening.keys, *keys), source, ports)


def _openings(resource: Resource) -> Iterator[_Opening]:
    kind = aws_type(resource.type)
    acl = kind in _ACLS | _ACL_RULES
    if kind in _GROUP_RULES | _ACL_RULES:
        yield from _letting_in(resource.properties, (), acl=acl)
        return
    for name in _INLINE_KEYS:
        listed = resource.properties.get(name)
        if listed is UNKNOWN:
            yield _Opening(body=None, keys=(name,))
        rules = ((0, listed),) if is_body(listed) else elements(listed)
        for index, rule in rules:
            if is_body(rule):
                yield from _letting_in(rule, (name, index), acl=acl)
            else:
                yield _Opening(body=None, keys=(name, index))


def _letting_in(rule: Body, keys: Keys, *, acl: bool) -> Iterator[_Opening]:
    """Yield a rule unless it certainly is one of outgoing traffic, or one that denies."""
    action = rule.get("action", rule.get("ruleAction"))
    outgoing = rule.get("type") == "egress" or truth(rule.get("egress")) is True
    if outgoing or (isinstance(action, str) and action.lower() == "deny"):
        return
    unknown = UNKNOWN in (action, rule.get("type"), rule.get("egress"))
    yield _Opening(body=rule, keys=keys, certain=not unknown, acl=acl)


def _public_source(opening: _Opening, keys: Keys, source: Value, ports: Covered) -> Iterator[Fault]:
    if source is UNKNOWN:
        yield _fault(keys, source, f"is not known; if public, it would reach {ports.words}")
    elif _names_a_prefix_list(keys):
        yield _fault(keys, source, f"holds ranges not seen here, which would reach {ports.words}")
    elif not (isinstance(source, str) and is_private(source)):
        if opening.acl and _lets_answers_in(ports):
            yield from _only_groups_are_left(keys, source, ports)
            return
        certain = ports.certain and opening.certain
        verdict = Verdict.FAIL if certain else Verdict.UNDETERMINABLE
        yield _fault(keys, source, f"is public and would reach {ports.words}", verdict)


def _lets_answers_in(ports: Covered) -> bool:
    return ports.certain and ports.low <= _ANSWERS[0] and ports.high >= _ANSWERS[1]


def _only_groups_are_left(keys: Keys, source: Value, ports: Covered) -> Iterator[Fault]:
    if any(not _ANSWERS[0] <= port <= _ANSWERS[1] for port in ports.ports):
        yield Fault(
            key=key_path(*keys),
            given=source,
            reason=f"is public and covers {ports.words}, so that only security groups guard them",
            remedy="let answers in by 32768-60999 alone, and the load balancer's port beside it",
            verdict=Verdict.WARN,
        )


def _names_a_prefix_list(keys: Keys) -> bool:
    return any(key in _PREFIX_LIST_KEYS for key in keys)


def _sources(rule: Body) -> Iterator[tuple[Keys, Value]]:
    for name in (*_RANGE_KEYS, *_PREFIX_LIST_KEYS):
        listed = rule.get(name)
        if listed is UNKNOWN or (isinstance(listed, str) and listed):
            yield (name,), listed
        for index, source in elements(listed):
            yield (name, index), source


def _fault(
    keys: Keys, given: Value, reason: str, verdict: Verdict = Verdict.UNDETERMINABLE
) -> Fault:
    return Fault(key=key_path(*keys), given=given, reason=reason, remedy=_REMEDY, verdict=verdict)
