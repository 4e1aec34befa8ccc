"""What a run that was cut off has left, looked at once more through the real Ansible."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.ansible_project import pool, project
from tokenworks.hosts import operate
from tokenworks.hosts.outcome import Ending, Outcome

SLEEP = "    - name: Install\n      ansible.builtin.command: sleep 600\n"
LOOK = "    - name: Look\n      report:\n        tokenworks: {seen}\n"
NOTHING = "{changes: {change_class: nothing, steps: [], because: [], half_installed: []}}"
HALF = "{changes: {change_class: driver, steps: [packages], half_installed: [nvidia-dkms-580]}}"


def cancelled_run(folder: Path, look: str, monkeypatch: pytest.MonkeyPatch) -> operate.PoolReport:
    made = project(folder / "project", prepare=SLEEP, check=look)
    for name in ("PREPARE", "_AFTER_A_CUT"):
        monkeypatch.setattr(operate, name, replace(getattr(operate, name), project=made))
    cancelled = threading.Event()

    def cancel(event: Mapping[str, Any]) -> None:
        if event["event"] == "runner_on_start":
            cancelled.set()

    return operate.prepare_pool(pool(folder, "gpu-1"), cancel, cancelled)


@pytest.mark.parametrize(
    ("look", "left"),
    [
        (LOOK.format(seen=HALF), "half installed are nvidia-dkms-580: the next run finishes them"),
        (LOOK.format(seen=NOTHING), "no package is half installed"),
        ("    - name: Look\n      ansible.builtin.fail: {msg: gone}\n", "cannot be told: gone"),
    ],
    ids=["half installed", "clean", "cannot be told"],
)
def test_a_cancelled_run_tells_what_it_left(
    look: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = cancelled_run(tmp_path, look, monkeypatch)
    assert report.ending is Ending.CANCELLED
    assert not report.good
    (host,) = report.hosts
    assert (host.outcome, host.task) == (Outcome.CUT_OFF, "Install")
    assert host.message.startswith("the run was cancelled; ")
    assert left in host.message


def test_what_roles_report_is_kept_by_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = "changes: {change_class: driver, steps: [drain], because: [it is old]}"
    seen = f"{{{plan}, observed: {{driver: '580.1'}}}}"
    made = project(tmp_path / "project", check=LOOK.format(seen=seen))
    monkeypatch.setattr(operate, "CHECK", replace(operate.CHECK, project=made))
    report = operate.check_pool(pool(tmp_path, "gpu-1"), lambda _event: None)
    (host,) = report.hosts
    assert report.good
    assert (host.change_class, host.steps, host.changes) == ("driver", ("drain",), ("it is old",))
    assert host.observed == {"driver": "580.1"}
