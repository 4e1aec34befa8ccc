"""What people read of machines: what is wrong first, then what changes, then what to do."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table

from tokenworks.hosts.lock_file import Difference
from tokenworks.hosts.operate import HostReport, PoolReport
from tokenworks.hosts.outcome import Ending, Outcome
from tokenworks.report.hosts import differences_table, observed_table, pool_table


def text(table: Table) -> str:
    console = Console(width=200, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def report(outcome: Outcome = Outcome.SAME, changes: int = 0, message: str = "") -> PoolReport:
    host = HostReport(
        host="gpu-1",
        outcome=outcome,
        change_class="driver",
        changes=tuple(f"change {number}" for number in range(changes)),
        steps=("drain", "packages"),
        wrong=("nouveau holds the GPUs",),
        proof={},
        observed={"driver": None, "packages": {"nvidia-container-toolkit": "1.20.0-1"}},
        task="Install",
        message=message,
        remedy="run it again",
    )
    return PoolReport(pool="h100", ending=Ending.COMPLETE, hosts=(host,))


def test_a_host_is_told_with_what_is_wrong_and_what_to_do() -> None:
    told = text(pool_table(report(Outcome.FAILED, 2, "no such package")))
    for words in (
        "gpu-1",
        "failed",
        "driver",
        "drain, packages",
        "nouveau",
        "change 1",
        "Install: no such package",
        "run it again",
    ):
        assert words in told
    assert "more" not in told


def test_what_came_beside_the_lock_is_told() -> None:
    (host,) = report(Outcome.CHANGED).hosts
    brought = replace(host, brought=("make 4.3-4.1", "patch 2.7.6-7"))
    told = text(pool_table(replace(report(), hosts=(brought,))))
    assert "came with them from the distribution: make 4.3-4.1, patch 2.7.6-7" in told
    assert "from the distribution" not in text(pool_table(report()))


def test_a_hundred_changes_are_told_in_a_few_lines() -> None:
    told = text(pool_table(report(changes=100)))
    assert "and 92 more, see --json" in told
    assert "change 99" not in told


def test_a_message_that_repeats_what_is_wrong_is_told_once() -> None:
    told = text(pool_table(report(Outcome.FAILED, message="nouveau holds the GPUs")))
    assert told.count("nouveau") == 1


def test_versions_are_told_as_the_host_has_them() -> None:
    told = text(observed_table(report()))
    assert "1.20.0-1" in told
    assert "none" in told


def test_differences_of_locks_stand_side_by_side() -> None:
    found = [Difference(what="gcc-13", locked="13.2 aaaa", offered="13.3 bbbb")]
    assert "13.2 aaaa" in text(differences_table("a.yaml", found))
