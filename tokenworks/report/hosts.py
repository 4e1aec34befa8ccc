"""Machines as tables: what a run would change, what became of it, how locks differ."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tokenworks.hosts.lock_file import Difference
from tokenworks.hosts.operate import HostReport, PoolReport
from tokenworks.report.tables import filled

SHOWN_CHANGES = 8


def pool_table(report: PoolReport) -> Table:
    """Each host of a pool: what became of it, what differs, what a run does, what to do."""
    headings = ("host", "", "class", "steps", "what and why", "to do")
    rows = (_row(host) for host in report.hosts)
    return filled(f"{report.pool}: {report.ending.value}", headings, rows)


def observed_table(report: PoolReport) -> Table:
    """Versions as each host of a pool has them."""
    seen = {host.host: _versions(host) for host in report.hosts}
    keys = sorted({key for versions in seen.values() for key in versions})
    rows = ((name, *(versions.get(key, "") for key in keys)) for name, versions in seen.items())
    return filled(f"{report.pool}: as the hosts are", ("host", *keys), rows)


def differences_table(name: str, found: Iterable[Difference]) -> Table:
    """What a lock has otherwise than its repositories."""
    rows = ((one.what, one.locked, one.offered) for one in found)
    return filled(f"{name}: differences", ("what", "locked", "offered now"), rows)


def _versions(host: HostReport) -> dict[str, str]:
    if not host.observed:
        return {}
    packages = host.observed.get("packages") or {}
    found = {key: value for key, value in host.observed.items() if key != "packages"}
    found["toolkit"] = packages.get("nvidia-container-toolkit")
    return {key: "none" if value is None else str(value) for key, value in found.items()}


def _row(host: HostReport) -> tuple[str, ...]:
    return (
        host.host,
        host.outcome.value,
        host.change_class or "unknown",
        ", ".join(host.steps),
        "\n".join(_told(host)),
        host.remedy,
    )


def _told(host: HostReport) -> list[str]:
    """What is wrong, then the first changes: a fresh host has a hundred of them."""
    shown = host.changes[:SHOWN_CHANGES]
    more = len(host.changes) - len(shown)
    told = [*host.wrong, *shown, *([f"and {more} more, see --json"] if more else [])]
    if host.brought:
        told.append(f"came with them from the distribution: {', '.join(host.brought)}")
    if host.message and host.message not in "\n".join(host.wrong):
        told.append(f"{host.task}: {host.message}" if host.task else host.message)
    return told
