"""Checking, preparing and verifying the hosts of a pool, and what that found, host by host."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tokenworks.hosts.inventory import Pool
from tokenworks.hosts.outcome import Ending, HostResult, Outcome, RunResult
from tokenworks.hosts.runner import Playbook, Watch, run_playbook
from tokenworks.hosts.settings import HostSettings

CHECK: Final = Playbook(name="check.yml", timeout_seconds=15 * 60)
PREPARE: Final = Playbook(
    name="prepare.yml", changes=True, timeout_seconds=HostSettings().turn_timeout_seconds
)
"""Its time is that of one failure domain."""
VERIFY: Final = Playbook(name="verify.yml", timeout_seconds=60 * 60)
CHECK_BROKE: Final = 3
"""Exit status of the gate where a check could not be made (tokenworks.hosts.checks)."""
_AFTER_A_CUT: Final = replace(CHECK, timeout_seconds=120)


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """One host: what became of it, what a run changes or changed, what is wrong, what was seen.

    ``change_class`` is None where no change was planned for it; ``proof`` is what the gate
    measured, ``observed`` the versions that the host has, ``brought`` "name version" of what came
    with the locked packages from the distribution, being of no concern to GPUs.
    """

    host: str
    outcome: Outcome
    change_class: str | None
    changes: tuple[str, ...]
    steps: tuple[str, ...]
    wrong: tuple[str, ...]
    proof: Mapping[str, Any]
    observed: Mapping[str, Any]
    task: str = ""
    message: str = ""
    remedy: str = ""
    brought: tuple[str, ...] = ()

    @property
    def told(self) -> bool:
        """Whether it is known how the host is.

        A check that broke tells nothing of its GPUs, and a run that failed before it looked, as
        where the cluster does not answer, nothing at all.
        """
        if self.outcome is Outcome.FAILED:
            return bool(self.observed) and self.proof.get("exit_status") != CHECK_BROKE
        return self.outcome.good


@dataclass(frozen=True, kw_only=True)
class PoolReport:
    """All hosts of a pool after one run."""

    pool: str
    ending: Ending
    hosts: tuple[HostReport, ...]

    @property
    def good(self) -> bool:
        """Whether the run did on every host what it was to do."""
        return self.ending is Ending.COMPLETE and all(host.outcome.good for host in self.hosts)


def check_pool(pool: Pool, watch: Watch, cancelled: threading.Event | None = None) -> PoolReport:
    """Read every host and plan what a run would change; changes nothing."""
    return _reported(pool, run_playbook(CHECK, pool, pool.hosts, watch=watch, cancelled=cancelled))


def verify_pool(pool: Pool, watch: Watch, cancelled: threading.Event | None = None) -> PoolReport:
    """Compare every host with the lock, and prove its GPUs; changes nothing."""
    return _reported(pool, run_playbook(VERIFY, pool, pool.hosts, watch=watch, cancelled=cancelled))


def prepare_pool(pool: Pool, watch: Watch, cancelled: threading.Event | None = None) -> PoolReport:
    """Bring every host that differs to its lock, one failure domain after the other.

    After a run that was cut off, hosts are looked at once more: what it left is said.
    """
    playbook = replace(PREPARE, timeout_seconds=pool.prepare_timeout_seconds)
    result = run_playbook(playbook, pool, pool.hosts, watch=watch, cancelled=cancelled)
    report = _reported(pool, result)
    if result.ending not in (Ending.TIMEOUT, Ending.CANCELLED):
        return report
    # Of the hosts alone: a cluster that does not answer may be why the run was cut off.
    after = run_playbook(_AFTER_A_CUT, replace(pool, kubeconfig=""), pool.hosts, watch=watch)
    left = {host.host: _left_behind(host) for host in after.hosts}
    hosts = tuple(
        replace(host, message=f"{host.message}; {left[host.host]}") for host in report.hosts
    )
    return replace(report, hosts=hosts)


def _reported(pool: Pool, result: RunResult) -> PoolReport:
    hosts = tuple(_host(one) for one in result.hosts)
    return PoolReport(pool=pool.name, ending=result.ending, hosts=hosts)


def _host(result: HostResult) -> HostReport:
    told = result.report
    plan = told.get("changes") or {}
    return HostReport(
        host=result.host,
        outcome=result.outcome,
        change_class=plan.get("change_class"),
        changes=tuple(plan.get("because", ())),
        steps=tuple(plan.get("steps", ())),
        wrong=(*told.get("refused", ()), *told.get("differences", ())),
        proof=told.get("proof") or {},
        observed=told.get("observed") or {},
        task=result.task,
        message=result.message,
        remedy=result.remedy,
        brought=tuple(told.get("brought", ())),
    )


def _left_behind(host: HostResult) -> str:
    """What a run that was cut off has left on a host."""
    plan = host.report.get("changes")
    if plan is None:
        return f"what it left cannot be told: {host.message}"
    half = ", ".join(plan.get("half_installed", ()))
    return (
        f"half installed are {half}: the next run finishes them"
        if half
        else "no package is half installed"
    )
