"""Which ports a rule of a security group or network ACL covers, however it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy import engines
from policy.resources import UNKNOWN, Body, Value, number, peek

# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
_ALL_PROTOCOLS: Final = frozenset({"-1", "all", "any"})
_TCP: Final = frozenset({"tcp", "6"})
# Engines speak HTTP and gRPC over TCP; these reach none of them
# (iana.org/assignments/protocol-numbers).
_OTHER_PROTOCOLS: Final = frozenset(
    {"udp", "icmp", "icmpv6", "igmp", "gre", "esp", "ah", "ipip", "sctp", "ipv6-icmp", "icmp6"}
)
_HIGHEST_PROTOCOL: Final = 255
_ALL_PORTS: Final = (0, 65535)


@dataclass(frozen=True, kw_only=True)
class Covered:
    """The ports in question that a rule covers, in words, and whether it certainly does.

    ``low`` and ``high`` are the ends of the range, and ``ports`` those within; all ports where an
    end is not known.
    """

    words: str
    certain: bool = True
    low: int = _ALL_PORTS[0]
    high: int = _ALL_PORTS[1]
    ports: tuple[int, ...] = tuple(engines.PORTS)


# Ports that may be public: where they lead is judged at the load balancer behind them.
_WEB: Final = frozenset({80, 443})
_UDP: Final = frozenset({"udp", "17"})
# Names for what is most often opened (iana.org/assignments/service-names-port-numbers;
# kubernetes.io/docs/reference/networking/ports-and-protocols).
_NAMES: Final = {
    22: "SSH",
    988: "Lustre",
    2049: "NFS",
    2379: "etcd",
    3389: "RDP",
    6379: "Valkey",
    6443: "Kubernetes",
    9090: "Prometheus",
    10250: "kubelet",
}


def engine_ports(rule: Body) -> Covered | None:
    """Return what a rule covers of the ports of engines, or None where it covers none.

    A protocol or an end of the range that is missing means all of them.
    """
    protocol = rule.get("protocol", rule.get("ipProtocol"))
    spelled = str(protocol).strip().lower()
    if protocol is None or spelled in _ALL_PROTOCOLS:
        return Covered(words="all ports of all protocols")
    if protocol is UNKNOWN:  # which may mean all of them, whatever the range says
        return Covered(words="ports that are not known", certain=False)
    if _is_not_tcp(spelled):
        return None
    first, last = _ends(rule)
    low, high = _port(first, _ALL_PORTS[0]), _port(last, _ALL_PORTS[1])
    ports = tuple(port for port in engines.PORTS if low <= port <= high)
    if not ports:
        return None  # also where one end is not known: the other is beyond every engine's port
    if UNKNOWN in (first, last):
        return Covered(words="ports that are not known", certain=False)
    words = ", ".join(f"{port} ({engines.PORTS[port]})" for port in ports)
    return Covered(words=f"engine ports {words}", low=low, high=high, ports=ports)


def ports_beside_the_web(rule: Body) -> Covered | None:
    """Return what a rule covers beside the ports of the web, or None where it covers nothing else.

    A rule that covers an engine's port is left to whoever judges those.
    """
    spelled = str(rule.get("protocol", rule.get("ipProtocol"))).strip().lower()
    if engine_ports(rule) is not None or (_is_not_tcp(spelled) and spelled not in _UDP):
        return None
    first, last = _ends(rule)
    low, high = _port(first, _ALL_PORTS[0]), _port(last, _ALL_PORTS[1])
    if UNKNOWN in (first, last):
        return Covered(words="ports that are not known", certain=False)
    if low == high and low in _WEB:
        return None
    named = ", ".join(f"{port} ({_NAMES[port]})" for port in _NAMES if low <= port <= high)
    span = f"port {low}" if low == high else f"ports {low} to {high}"
    words = f"{span}, among them {named}" if named and low != high else named or span
    return Covered(words=words, low=low, high=high, ports=())


def _is_not_tcp(spelled: str) -> bool:
    """Return whether it certainly is another protocol; a word that nobody knows is not."""
    if spelled.isascii() and spelled.isdigit():
        return int(spelled) != int("6") and int(spelled) <= _HIGHEST_PROTOCOL
    return spelled not in _TCP and spelled in _OTHER_PROTOCOLS


def _ends(rule: Body) -> tuple[Value, Value]:
    ends = rule.get("portRange")  # network ACLs of aws-native
    if ends is not None:
        return peek(ends, "from"), peek(ends, "to")
    return rule.get("fromPort"), rule.get("toPort")


def _port(value: Value, otherwise: int) -> int:
    known = number(value)
    return otherwise if known is None or known < 0 else known
