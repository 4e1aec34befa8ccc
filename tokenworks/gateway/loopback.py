"""The gateway's files as they are rendered for production, sent to addresses of this machine.

Nothing differs but where things are: every ``socket_address`` in a rendered file is either named in
a map from its place in production to its place here, or refused, so that a gateway on a laptop
talks to nobody else.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from tokenworks.errors import OperationError

Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Substitution:
    """Where things are here: an address in production to one or more on loopback.

    There are several where one name stands for the addresses of many pods.
    """

    addresses: Mapping[Address, tuple[Address, ...]]

    def apply(self, text: str) -> str:
        """One rendered YAML file with its addresses replaced.

        Raises:
            OperationError: it has an address that is neither in the map nor on loopback.
        """
        value = YAML(typ="safe", pure=True).load(text)
        # JSON is YAML; no string can leave its quotes.
        return json.dumps(self._walk(value), indent=1, ensure_ascii=False) + "\n"

    def _walk(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._walk(each) for each in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("lb_endpoints"), list):
            hosts = [host for each in value["lb_endpoints"] for host in self._hosts(each)]
            return {**value, "lb_endpoints": hosts}
        if "socket_address" in value:
            (address,) = self._places(value["socket_address"])
            return {**value, "socket_address": _written(value["socket_address"], address)}
        return {key: self._walk(each) for key, each in value.items()}

    def _hosts(self, host: dict[str, Any]) -> list[dict[str, Any]]:
        """One endpoint in production is as many here as there are replicas."""
        endpoint = host["endpoint"]
        original = endpoint["address"].get("socket_address")
        if original is None:  # a listener inside the process
            return [host]
        return [
            {
                **host,
                "endpoint": {**endpoint, "address": {"socket_address": _written(original, place)}},
            }
            for place in self._places(original)
        ]

    def _places(self, original: Mapping[str, Any]) -> tuple[Address, ...]:
        address = (str(original["address"]), int(original["port_value"]))
        if address in self.addresses:
            return self.addresses[address]
        if not _is_loopback(address[0]):
            raise OperationError(
                f"the address {address[0]}:{address[1]} in the gateway's configuration",
                reason="has no place on this machine",
                remedy="add it to what is substituted in tokenworks/gateway/loopback.py",
            )
        return (address,)


def _written(original: Mapping[str, Any], address: Address) -> dict[str, Any]:
    return {**original, "address": address[0], "port_value": address[1]}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
