"""AWS security group rules that open engine ports to public addresses.

AWS has several resources for one thing: rules inline in a SecurityGroup, SecurityGroupRule,
vpc.SecurityGroupIngressRule, and the same twice in ``aws-native``. Each is read into openings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy import engines
from policy.networks import is_private
from policy.resources import (
    UNKNOWN,
    Body,
    Resource,
    Value,
    elements,
    is_body,
    key_path,
    number,
    peek,
)
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

_PACKAGES: Final = ("aws:", "aws-native:")
_INLINE: Final = frozenset({"SecurityGroup", "DefaultSecurityGroup"})
_SINGLE: Final = frozenset(
    {"SecurityGroupRule", "SecurityGroupIngressRule", "SecurityGroupIngress"}
)
_INLINE_KEYS: Final = ("ingress", "ingresses", "securityGroupIngress")
_RANGE_KEYS: Final = ("cidrIpv4", "cidrIpv6", "cidrIp", "cidrBlocks", "ipv6CidrBlocks")
_PREFIX_LIST_KEYS: Final = ("prefixListId", "prefixListIds", "sourcePrefixListId")
# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
_ALL_PROTOCOLS: Final = frozenset({"-1", "all"})
_TCP: Final = frozenset({"tcp", "6"})
_ALL_PORTS: Final = (0, 65535)
_REMEDY: Final = (
    "admit the gateway's security group or private ranges to engine ports, and nothing else"
)


@dataclass(frozen=True, kw_only=True)
class _Opening:
    """One ingress rule and the keys that lead to it; a body of None is not known yet."""

    body: Body | None
    keys: tuple[str | int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Ports:
    """The engine ports that a rule covers, in words, and whether it certainly does."""

    words: str
    certain: bool = True


def is_security_group(type_token: str) -> bool:
    """Return whether a type token is of a resource that can hold ingress rules."""
    kind = type_token.rpartition(":")[2]
    return type_token.startswith(_PACKAGES) and kind in _INLINE | _SINGLE


def security_group_faults(resource: Resource) -> Iterator[Fault]:
    """Yield a fault for each public source that an engine port is, or may be, opened to."""
    for opening in _openings(resource):
        if opening.body is None:
            yield _fault(opening.keys, UNKNOWN, "is not known, and may open engine ports")
            continue
        ports = _engine_ports(opening.body)
        if ports is not None:
            for keys, source in _sources(opening.body):
                yield from _public_source((*opening.keys, *keys), source, ports)


def _openings(resource: Resource) -> Iterator[_Opening]:
    if resource.type.rpartition(":")[2] in _SINGLE:
        if peek(resource.properties, "type") != "egress":
            yield _Opening(body=resource.properties)
        return
    for name in _INLINE_KEYS:
        listed = peek(resource.properties, name)
        if listed is UNKNOWN:
            yield _Opening(body=None, keys=(name,))
        for index, rule in elements(listed):
            yield _Opening(body=rule if is_body(rule) else None, keys=(name, index))


def _engine_ports(rule: Body) -> _Ports | None:
    protocol = rule.get("protocol", rule.get("ipProtocol"))
    spelled = str(protocol).lower()
    if spelled in _ALL_PROTOCOLS:
        return _Ports(words="all ports of all protocols")
    if protocol is not UNKNOWN and spelled not in _TCP:
        return None  # engines speak HTTP over TCP; UDP, ICMP or GRE reaches none of them
    first, last = rule.get("fromPort"), rule.get("toPort")
    if UNKNOWN in (protocol, first, last):
        return _Ports(words="ports that are not known", certain=False)
    low, high = _port(first, _ALL_PORTS[0]), _port(last, _ALL_PORTS[1])
    covered = [f"{port} ({owner})" for port, owner in engines.PORTS.items() if low <= port <= high]
    return _Ports(words=f"engine ports {', '.join(covered)}") if covered else None


def _port(value: Value, otherwise: int) -> int:
    known = number(value)
    return otherwise if known is None or known < 0 else known


def _public_source(keys: Keys, source: Value, ports: _Ports) -> Iterator[Fault]:
    if source is UNKNOWN:
        yield _fault(keys, source, f"is not known; if public, it would reach {ports.words}")
    elif _names_a_prefix_list(keys):
        yield _fault(keys, source, f"holds ranges not seen here, which would reach {ports.words}")
    elif not (isinstance(source, str) and is_private(source)):
        verdict = Verdict.FAIL if ports.certain else Verdict.UNDETERMINABLE
        yield _fault(keys, source, f"is public and would reach {ports.words}", verdict)


def _names_a_prefix_list(keys: Keys) -> bool:
    return any(key in _PREFIX_LIST_KEYS for key in keys)


def _sources(rule: Body) -> Iterator[tuple[Keys, Value]]:
    for name in (*_RANGE_KEYS, *_PREFIX_LIST_KEYS):
        listed = rule.get(name)
        if listed is UNKNOWN or isinstance(listed, str):
            yield (name,), listed
        for index, source in elements(listed):
            yield (name, index), source


def _fault(
    keys: Keys, given: Value, reason: str, verdict: Verdict = Verdict.UNDETERMINABLE
) -> Fault:
    return Fault(key=key_path(*keys), given=given, reason=reason, remedy=_REMEDY, verdict=verdict)
