"""Filters over what was decided; they decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tokenworks.hosts.judged import domains


def changing_hosts(groups: Mapping[str, list[str]]) -> list[str]:
    """Return the hosts that a run changes, one failure domain after the other."""
    return [host for domain in domains(groups) for host in domain] or ["!all"]


def changing_batches(groups: Mapping[str, list[str]]) -> list[int]:
    """Return how many of them are in each failure domain."""
    return [len(domain) for domain in domains(groups)] or [1]


def hosts_before(groups: Mapping[str, list[str]], batch: list[str]) -> list[str]:
    """Return the hosts whose turn comes before that of a batch."""
    turns = changing_hosts(groups)
    return turns[: turns.index(batch[0])]


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return them for Ansible."""
        filters = (changing_hosts, changing_batches, hosts_before)
        return {each.__name__: each for each in filters}
