"""How far a run is, told from Ansible's events."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from tokenworks.hosts.progress import Progress, Tracker, Working, advance


def event(kind: str, host: str = "gpu-1", task: str = "Install", role: str = "") -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": task, "role": role}}


def test_a_host_is_at_the_task_that_it_started_and_done_with_those_that_ended() -> None:
    progress = advance(Progress(), event("runner_on_start", role="base"), 5)
    assert progress.hosts == {"gpu-1": Working(task="base : Install", since=5, done=0)}
    progress = advance(progress, event("runner_on_ok"), 9)
    assert progress.hosts == {"gpu-1": Working(task="", since=9, done=1)}


def test_each_host_has_a_picture_of_its_own() -> None:
    progress = advance(Progress(), event("runner_on_start", "gpu-1"), 1)
    progress = advance(progress, event("runner_on_unreachable", "gpu-2"), 2)
    assert (progress.hosts["gpu-1"].done, progress.hosts["gpu-2"].done) == (0, 1)


def test_events_of_no_host_change_nothing() -> None:
    assert advance(Progress(), {"event": "playbook_on_stats"}, 1) == Progress()


def test_off_a_terminal_each_task_of_each_host_is_a_line() -> None:
    output = io.StringIO()
    tracker = Tracker("prepare h100", Console(file=output, width=200))
    for one in (event("runner_on_start"), event("runner_on_ok"), event("runner_on_start", "gpu-2")):
        tracker(one)
    assert output.getvalue().splitlines() == [
        "prepare h100: gpu-1: Install",
        "prepare h100: gpu-2: Install",
    ]


def test_on_a_terminal_the_table_has_every_host() -> None:
    tracker = Tracker("prepare h100", Console(file=io.StringIO(), force_terminal=True))
    tracker(event("runner_on_start", "gpu-1"))
    tracker(event("runner_on_ok", "gpu-2"))
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(tracker)
    assert "gpu-1" in captured.get()
    assert "gpu-2" in captured.get()
