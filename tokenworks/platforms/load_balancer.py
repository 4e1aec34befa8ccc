"""How a platform is asked for an internal load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pulumi

PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""Addresses that are routed nowhere in public; RFC 1918."""


@dataclass(frozen=True, kw_only=True)
class LoadBalancer:
    """Class, annotations and permitted callers of the gateway's load balancer.

    ``seen_ranges`` are the addresses from which its connections come to pods; ``address`` is what
    its controller tells of where it is.
    """

    class_name: pulumi.Input[str]
    annotations: Mapping[str, str]
    source_ranges: tuple[str, ...]
    seen_ranges: tuple[str, ...]
    needs_node_ports: bool
    address: Literal["ip", "hostname"] = "ip"
