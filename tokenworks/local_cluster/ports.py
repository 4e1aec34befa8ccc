"""Ports for clusters: each gets a block of its own, once, however many start at the same time."""

from __future__ import annotations

import errno
import hashlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import exclusive, write_whole
from tokenworks.local_cluster.layout import PORTS

FIRST: Final = 20000
BLOCK: Final = 10
BLOCKS: Final = 1000
"""Ports 20000 to 29999: below the ports that systems hand out to clients (Linux: from 32768) and
below those that Kubernetes gives to NodePorts (from 30000)."""


def ports_of(block: int) -> dict[str, int]:
    """The ports of a block by what they are for."""
    return {name: block + offset for offset, name in enumerate(PORTS)}


def choose_block(
    owner: str, taken: Mapping[int, str], is_free: Callable[[int], bool]
) -> int | None:
    """The first port of a block that nobody has: the owner's own when it has one, else a free one.

    The search begins at a place that the owner's name decides, so that users who do not see each
    other's reservations rarely meet. None when every block is taken.
    """
    own = [block for block, holder in taken.items() if holder == owner]
    if own:
        return own[0]
    start = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:4]) % BLOCKS
    for step in range(BLOCKS):
        block = FIRST + (start + step) % BLOCKS * BLOCK
        if block not in taken and all(is_free(port) for port in ports_of(block).values()):
            return block
    return None


@dataclass(frozen=True)
class Reservations:
    """Who has which block, of all this user's clusters in all checkouts, in one small file."""

    folder: Path

    def reserve(self, owner: Path, wanted: int | None) -> int:
        """A block for the cluster whose folder this is; the same one until it is released.

        ``wanted`` is the block that it remembers itself, for when the file was lost.

        Raises:
            OperationError: no block is free.
        """
        with self._held() as taken:
            # A reservation ends with its cluster's folder, however that went.
            living = {block: holder for block, holder in taken.items() if Path(holder).is_dir()}
            if wanted is not None:
                living.setdefault(wanted, str(owner))
            block = choose_block(str(owner), living, is_free)
            if block is None:
                raise OperationError(
                    "choosing ports for the local cluster",
                    reason=f"all of {FIRST} to {FIRST + BLOCKS * BLOCK - 1} are taken",
                    remedy="delete clusters that are no longer needed with `tokenworks down`",
                )
            taken.clear()
            taken.update({**living, block: str(owner)})
            return block

    def release(self, owner: Path) -> None:
        """Give a cluster's block back."""
        with self._held() as taken:
            for block in [each for each, holder in taken.items() if holder == str(owner)]:
                del taken[block]

    @contextmanager
    def _held(self) -> Iterator[dict[int, str]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "ports.json"
        with exclusive(self.folder):
            known = json.loads(file.read_text()) if file.exists() else {}
            taken = {int(block): str(holder) for block, holder in known.items()}
            yield taken
            write_whole(file, f"{json.dumps(taken, indent=2, sort_keys=True)}\n")


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now, on every address of the machine."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the servers do: connections that ended a moment ago do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    return False
                raise
    return True
