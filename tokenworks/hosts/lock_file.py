"""Host locks as files: reading, writing, comparing, and making them from repositories."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from tokenworks.hosts.archive import read_repository
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.reading import read_as
from tokenworks.hosts.request import LockRequest
from tokenworks.hosts.resolve import resolve

HEADER = (
    "# Every package of one kind of host, exact. Made by `tokenworks lock hosts`; do not edit.\n"
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that a lock has otherwise than its repositories would give it today."""

    what: str
    locked: str
    offered: str


def read_host_lock(file: Path) -> HostLock:
    """Read a host lock.

    Raises:
        ConfigError: missing, unreadable, or with every bad value at its key path and line.
    """
    return read_as(file, HostLock)


def lock_text(lock: HostLock) -> str:
    """Return a lock as it is committed; the same lock gives the same bytes."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    text = io.StringIO()
    yaml.dump(lock.model_dump(mode="json"), text)
    return HEADER + text.getvalue()


def make_lock(request: LockRequest, keys: Path) -> HostLock:
    """Read every repository of a request and resolve the lock from what they offer.

    Raises:
        OperationError: a repository cannot be read or is signed by another key.
        ConfigError: with everything that cannot be locked.
    """
    offered = [
        offer
        for repository in request.repositories
        for offer in read_repository(repository, request, keys)
    ]
    return resolve(request, offered)


def differences(locked: HostLock, offered: HostLock) -> Iterator[Difference]:
    """Yield what a committed lock and a newly resolved one do not have in common."""
    skipped = {"packages"}
    ours, theirs = (one.model_dump(mode="json", exclude=skipped) for one in (locked, offered))
    for key in ours:
        if ours[key] != theirs[key]:
            yield Difference(what=key, locked=str(ours[key]), offered=str(theirs[key]))
    packages = [{one.name: one for one in lock.packages} for lock in (locked, offered)]
    for name in sorted(packages[0].keys() | packages[1].keys()):
        before, now = (found.get(name) for found in packages)
        if before != now:
            yield Difference(
                what=name,
                locked=f"{before.version} {before.sha256[:12]}" if before else "not there",
                offered=f"{now.version} {now.sha256[:12]}" if now else "not there",
            )
