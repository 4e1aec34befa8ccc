"""Which address ranges are private."""

from __future__ import annotations

import ipaddress
from typing import Final

# A range is private only if it lies within one of these; documentation and benchmark ranges,
# which Python also calls private, do not count.
PRIVATE_RANGES: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",  # RFC 1918
        "172.16.0.0/12",  # RFC 1918
        "192.168.0.0/16",  # RFC 1918
        "100.64.0.0/10",  # RFC 6598, shared address space; also used for pods in a VPC
        "127.0.0.0/8",  # RFC 1122, loopback
        "169.254.0.0/16",  # RFC 3927, link-local
        "::1/128",  # RFC 4291, loopback
        "fc00::/7",  # RFC 4193, unique local
        "fe80::/10",  # RFC 4291, link-local
    )
)


def is_private(cidr: str) -> bool:
    """Return whether an address or range is wholly private; False for anything malformed."""
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return False
    return any(_within(network, private) for private in PRIVATE_RANGES)


def _within(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
    private: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(private, ipaddress.IPv4Network) and network.subnet_of(private)
    return isinstance(private, ipaddress.IPv6Network) and network.subnet_of(private)
