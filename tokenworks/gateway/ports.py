"""Ports on loopback for one environment's gateway: free ones, and the same ones every time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import write_whole
from tokenworks.local_cluster.ports import is_free

FIRST: Final = 10000
COUNT: Final = 10000
"""10000 to 19999: below the local clusters' blocks and the ports that systems hand to clients."""


def choose_ports(
    owner: str, names: Iterable[str], remembered: Mapping[str, int], free: Callable[[int], bool]
) -> dict[str, int]:
    """A port for each name: the remembered one while it is free, else the next free one.

    The search begins at a place that the owner's name decides, so that two checkouts rarely meet.

    Raises:
        OperationError: too few ports are free.
    """
    wanted = tuple(names)
    chosen = {
        name: remembered[name] for name in wanted if name in remembered and free(remembered[name])
    }
    start = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:4]) % COUNT
    candidates = (FIRST + (start + step) % COUNT for step in range(COUNT))
    for name in (name for name in wanted if name not in chosen):
        taken = {*chosen.values(), *remembered.values()}
        port = next((each for each in candidates if each not in taken and free(each)), None)
        if port is None:
            raise OperationError(
                "choosing ports for the gateway on loopback",
                reason=f"no port from {FIRST} to {FIRST + COUNT - 1} is free",
                remedy="end what listens there; `ss -tlnp` shows it",
            )
        chosen[name] = port
    return chosen


def ports_for(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """The ports of the gateway in this folder, remembered there."""
    file = folder / "ports.json"
    remembered = json.loads(file.read_text("utf-8")) if file.exists() else {}
    chosen = choose_ports(str(folder), names, remembered, is_free)
    write_whole(file, json.dumps({**remembered, **chosen}, indent=2) + "\n")
    return chosen
