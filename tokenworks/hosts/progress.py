"""How far a run is: a picture of it from Ansible's events, and ways to show the picture."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

_ENDS = {"runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped"}


@dataclass(frozen=True, kw_only=True)
class Working:
    """What a host is at, since when, and how many tasks it has behind it."""

    task: str = ""
    since: float = 0
    done: int = 0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """All hosts of a run."""

    hosts: Mapping[str, Working] = field(default_factory=dict)


def task_of(event: Mapping[str, Any]) -> str:
    """Name of an event's task, with its role."""
    data = event.get("event_data") or {}
    role, task = data.get("role"), str(data.get("task") or data.get("task_action") or "")
    return task if not role or task.startswith(f"{role} :") else f"{role} : {task}"


def advance(progress: Progress, event: Mapping[str, Any], now: float) -> Progress:
    """The picture after one more event."""
    data = event.get("event_data") or {}
    host = data.get("host")
    if not host:
        return progress
    before = progress.hosts.get(host, Working())
    kind = event.get("event")
    if kind == "runner_on_start":
        after = Working(task=task_of(event), since=now, done=before.done)
    elif kind in _ENDS:
        after = Working(task="", since=now, done=before.done + 1)
    else:
        return progress
    return replace(progress, hosts={**progress.hosts, host: after})


class Tracker:
    """Keeps the picture of a run, and tells it: line by line, or as a table that moves."""

    def __init__(self, title: str, console: Console) -> None:
        self.title, self.progress = title, Progress()
        self._console = console

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take one event; off a terminal, say at which task a host is now."""
        self.progress = advance(self.progress, event, time.monotonic())
        if event.get("event") == "runner_on_start" and not self._console.is_terminal:
            host = event["event_data"]["host"]
            line = f"{self.title}: {host}: {task_of(event)}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __rich__(self) -> Table:
        """The picture as it is now; asked again and again while it is shown."""
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        for heading in ("host", "tasks done", "task", ""):
            table.add_column(heading)
        now = time.monotonic()
        for host, working in self.progress.hosts.items():
            spent = f"{now - working.since:.0f} s" if working.task else ""
            table.add_row(host, str(working.done), working.task, spent)
        return table


@contextlib.contextmanager
def shown(tracker: Tracker, console: Console) -> Iterator[Tracker]:
    """Show the picture while it changes, where there is a terminal to show it on."""
    if not console.is_terminal:
        yield tracker
        return
    with Live(tracker, console=console, transient=True, refresh_per_second=4):
        yield tracker
