"""What the node pools of an environment name beside it: host locks, and settings of hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import ConfigError, Problem
from tokenworks.hosts.lock import HostLock, lock_path
from tokenworks.hosts.lock_file import read_host_lock
from tokenworks.hosts.reading import read_as
from tokenworks.hosts.settings import HostSettings


@dataclass(frozen=True, kw_only=True)
class HostFiles:
    """What the pools of an environment name beside it, by the pool's name."""

    locks: Mapping[str, HostLock]
    settings: Mapping[str, HostSettings]


NO_HOSTS: Final = HostFiles(locks={}, settings={})


def read_host_files(loaded: LoadedEnvironment) -> HostFiles:
    """Read lock and settings of each pool of machines; settings are the defaults without a file.

    Raises:
        ConfigError: with everything that is missing or refused, at the key that names the file.
    """
    locks: dict[str, HostLock] = {}
    settings: dict[str, HostSettings] = {}
    problems: list[Problem] = []
    folder = loaded.source.file.parent
    for index, pool in enumerate(loaded.environment.node_pools):
        if pool.host_lock is None:
            continue
        with _collected(loaded, ("node_pools", index, "host_lock"), pool.host_lock, problems):
            locks[pool.name] = read_host_lock(lock_path(folder, pool.host_lock))
        settings[pool.name] = HostSettings()
        if pool.host_settings is not None:
            path: KeyPath = ("node_pools", index, "host_settings")
            with _collected(loaded, path, pool.host_settings, problems):
                settings[pool.name] = read_as(folder / pool.host_settings, HostSettings)
    if problems:
        raise ConfigError(problems)
    return HostFiles(locks=locks, settings=settings)


@contextlib.contextmanager
def _collected(
    loaded: LoadedEnvironment, path: KeyPath, given: str, problems: list[Problem]
) -> Iterator[None]:
    """Add what is refused in a file beside the environment, at the key that names the file."""
    try:
        yield
    except ConfigError as error:
        problems += [_named(loaded, path, given, one) for one in error.problems]


def _named(loaded: LoadedEnvironment, path: KeyPath, given: str, problem: Problem) -> Problem:
    """A problem in a file beside the environment, at the key that names the file."""
    key = f"{problem.key} " if problem.key else ""
    where = f" (line {problem.line})" if problem.line else ""
    remedy = problem.remedy
    if problem.reason == "does not exist" and path[-1] == "host_lock":
        remedy = f"write hosts/requests/{given}.yaml and run `tokenworks lock hosts` on it"
    return loaded.source.problem(
        path, given=given, reason=f"{key}{problem.reason}{where}", remedy=remedy
    )
