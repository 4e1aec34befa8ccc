"""What the gate cannot read is no pass, and what takes long has the time that it needs."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

from tests.hosts.fake_root import fake_host, host_base, host_checks, host_gate
from tests.hosts.healthy import (
    CSV,
    DEVICE,
    ECC,
    FABRIC,
    FULL,
    GENERATION,
    GPUS,
    LINKED,
    ROWS,
    examined,
    healthy_answers,
    healthy_files,
    outcomes,
)
from tests.hosts.samples import DRIVER, lock
from tokenworks.hosts.files import GATE_TIMEOUT_SECONDS, gate_expectations
from tokenworks.hosts.settings import HostSettings

DIAGNOSED = '{{"tests": [{{"name": "memory", "status": "{}"}}]}}'
UNREADABLE: dict[str, tuple[str, dict[str, str | bytes], dict[str, str | tuple[int, str]]]] = {
    "memory errors that are unknown": ("ecc", {}, {ECC: "0\n[Unknown Error]\n"}),
    "memory errors of a GPU that is lost": ("ecc", {}, {ECC: "0\nERR!\n"}),
    "memory errors of no GPU": ("ecc", {}, {ECC: ""}),
    "memory errors of one GPU of two": ("ecc", {}, {ECC: "0\n"}),
    "rows of no GPU": ("row_remap", {}, {f"{ROWS} {CSV}": "\n"}),
    "rows of one GPU of two": ("row_remap", {}, {f"{ROWS} {CSV}": "No, No\n"}),
    "rows that are unknown": ("row_remap", {}, {f"{ROWS} {CSV}": "0, 0\n0, [Unknown Error]\n"}),
    "a fabric of one GPU of two": ("fabric_state", {}, {FABRIC: "Completed\n"}),
    "a link of unknown speed": (
        "nvlinks",
        {},
        {"nvidia-smi nvlink --status": LINKED.replace("26.562 GB/s", "ERR!", 1)},
    ),
    "a kernel log without an entry": ("xid", {}, {"journalctl": "-- No entries --\n"}),
    "a bus without lanes": (
        "pcie_width",
        {f"{DEVICE}/{n}_link_width": "0\n" for n in ("current", "max")},
        {},
    ),
    "a slot of unknown generation": ("pcie_generation", {}, {GENERATION: "5\n[N/A]\n"}),
    "bus errors of one GPU of two": ("aer", {f"{DEVICE}/aer_dev_fatal": ""}, {}),
    "a diagnostic that skipped all": ("dcgm", {}, {"dcgmi": DIAGNOSED.format("Skip")}),
    "a diagnostic that ran nothing": ("dcgm", {}, {"dcgmi": DIAGNOSED.format("Not Run")}),
    "a diagnostic that ended badly": ("dcgm", {}, {"dcgmi": (226, DIAGNOSED.format("Pass"))}),
    "a diagnostic in other words": (
        "dcgm",
        {},
        {"dcgmi": f"[{DIAGNOSED.format('Pass')}, {DIAGNOSED.format('Unknown')}]"},
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_no_pass_and_no_fault(case: str, tmp_path: Path) -> None:
    name, files, answers = UNREADABLE[case]
    results = examined(tmp_path, files, answers, settings=FULL)
    assert outcomes(results, "broke") == [name], results
    assert outcomes(results, "failed") == []
    assert results[name]["message"]


def test_a_host_without_the_drivers_library_does_not_pass(tmp_path: Path) -> None:
    results = examined(tmp_path, without=(f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}",))
    assert outcomes(results, "failed") == ["driver"]


def test_a_gpu_without_memory_checks_has_nothing_wrong_with_them(tmp_path: Path) -> None:
    """Such as a GeForce, or ECC that is switched off."""
    answers: dict[str, str | tuple[int, str]] = {
        ECC: "[N/A]\nN/A\n",
        f"{ROWS} {CSV}": "[N/A], [N/A]\nN/A, N/A\n",
    }
    results = examined(tmp_path, answers=answers)
    assert results["ecc"]["outcome"] == results["row_remap"]["outcome"] == "passed"


def test_bus_errors_that_nobody_counts_are_skipped(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"sys/bus/pci/devices/0000:0{n}:00.0/aer_dev_fatal": "" for n in range(GPUS)
    }
    assert "aer" in outcomes(examined(tmp_path, files), "skipped")


def test_a_diagnostic_that_warns_and_skips_some_passes(tmp_path: Path) -> None:
    said = ", ".join(DIAGNOSED.format(word) for word in ("Pass", "Skip", "Warn"))
    assert (
        examined(tmp_path, answers={"dcgmi": f"[{said}]"}, settings=FULL)["dcgm"]["outcome"]
        == "passed"
    )


def test_gpus_that_are_still_joining_the_fabric_are_waited_for(tmp_path: Path) -> None:
    host = fake_host(tmp_path, healthy_files(), healthy_answers())
    states, asked = iter(["In Progress\nIn Progress\n", "Completed\nIn Progress\n"]), host.run
    host.run = lambda *command, **told: (
        (0, next(states, "Completed\nCompleted\n"))
        if " ".join(command) == FABRIC
        else asked(*command, **told)
    )
    expect = json.loads(json.dumps(gate_expectations(lock(), HostSettings(expected_gpus=GPUS))))
    pauses: list[float] = []
    results = host_gate.examine(host_gate.Gate(host, expect, pause=pauses.append))
    assert {r["name"]: r["outcome"] for r in results}["fabric_state"] == "passed"
    assert len(pauses) == 2


SLOW = {
    "dcgmi": DIAGNOSED.format("Pass"),
    "all_reduce_perf": "# Avg bus bandwidth : 412.7",
    "journalctl": "usb 1-1: new device",
}


def test_only_a_diagnostic_may_take_longer_than_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, says in SLOW.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nsleep 2\necho '{says}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = FULL.gate.model_copy(update={"nccl_test": str(tmp_path / "all_reduce_perf")})
    expect = gate_expectations(lock(), FULL.model_copy(update={"gate": asked}))
    gate = host_gate.Gate(fake_host(tmp_path / "root", healthy_files()), expect)
    real = functools.partial(host_base.run_program, seconds=1)
    gate.host.run = lambda *command, seconds=host_base.PROGRAM_SECONDS: (
        real(*command)
        if seconds == host_base.PROGRAM_SECONDS
        else host_base.run_program(*command, seconds=seconds)
    )
    results = {result["name"]: result for result in host_gate.examine(gate)}
    assert results["dcgm"]["outcome"] == results["nccl"]["outcome"] == "passed", results
    assert "missing, or takes over" in results["xid"]["message"]


def test_a_program_that_takes_longer_than_it_may_gives_no_answer() -> None:
    assert host_base.run_program("sleep", "60", seconds=0.1) is None
    assert host_base.run_program("echo", "well", seconds=60) == (0, "well\n")


def test_the_unit_of_the_gate_leaves_time_for_whatever_takes_long() -> None:
    """The diagnostic's deepest level takes a quarter of an hour."""
    fabric = host_checks.FABRIC_LOOKS * host_checks.FABRIC_PAUSE_SECONDS
    longest = host_checks.DIAGNOSTIC_SECONDS + host_checks.NCCL_SECONDS + fabric
    assert host_checks.DIAGNOSTIC_SECONDS > 15 * 60
    assert longest + 2 * host_base.PROGRAM_SECONDS < GATE_TIMEOUT_SECONDS
