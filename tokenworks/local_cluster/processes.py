"""Which processes belong to a cluster, and ending them and no others.

A process belongs to a cluster when it was started by the path of one of its programs, which lies
in that cluster's folder. Files with process ids are not believed: after a crash the id may
be any other program's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tokenworks.local_cluster.layout import COMPONENTS, Layout

KWOKCTL: Final = "kwokctl"
_PROC: Final = Path("/proc")
_POLL_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 2.0
"""How long a component may take to end by itself. The API server waits a minute for its watchers;
it keeps nothing, so it is ended sooner."""
_AFTER_KILL_SECONDS: Final = 10.0


def running(layout: Layout) -> dict[str, tuple[int, ...]]:
    """The cluster's live processes: component to process ids, nearly always one each.

    While the cluster starts, kwokctl is among them; it goes on when its starter was killed.
    """
    programs = {str(path): name for name, path in _paths(layout).items()}
    found: dict[str, tuple[int, ...]] = {}
    for pid, program in started_by(programs):
        name = programs[program]
        found[name] = (*found.get(name, ()), pid)
    return found


def end(layout: Layout) -> None:
    """End every process of the cluster, those first that start or need the others.

    Raises:
        TimeoutError: one is still there; its name and id are in the message.
    """
    for name in _paths(layout):
        if not _end_one(layout, name):
            raise TimeoutError(f"{name} {running(layout).get(name)}")


def _paths(layout: Layout) -> dict[str, Path]:
    """The cluster's programs by name, in the order in which they are ended."""
    components = {each.name: layout.program(each.name) for each in reversed(COMPONENTS)}
    return {KWOKCTL: layout.kwokctl, **components}


def _end_one(layout: Layout, component: str) -> bool:
    steps = ((signal.SIGTERM, PATIENCE_SECONDS), (signal.SIGKILL, _AFTER_KILL_SECONDS))
    for number, patience in steps:
        _signal(layout, component, number)
        if _wait_until(lambda: component not in running(layout), patience):
            return True
    return False


def _signal(layout: Layout, component: str, number: signal.Signals) -> None:
    program = str(_paths(layout)[component])
    for pid in running(layout).get(component, ()):
        with suppress(ProcessLookupError):
            signal_program(pid, program, number)


def signal_program(pid: int, program: str, number: signal.Signals) -> None:
    """Send a signal to a process that still runs this program.

    Where the system can hold on to a process, its id cannot pass to another in between.
    """
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, number)
        return
    held = os.pidfd_open(pid)
    try:
        if _program(pid, [program]) == program:
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def _wait_until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def started_by(wanted: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Every process that was started by one of the wanted paths: its id and that path."""
    paths = tuple(wanted)
    yield from _linux(paths) if _PROC.is_dir() else _portable(paths)


def _linux(wanted: Iterable[str]) -> Iterable[tuple[int, str]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            program = _program(int(entry.name), wanted)
            if program is not None:
                yield int(entry.name), program


def _program(pid: int, wanted: Iterable[str]) -> str | None:
    """Which of the wanted paths a process was started by; a dead one not yet reaped has none."""
    try:
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return None
    first = os.fsdecode(command.split(b"\0", 1)[0])
    return first if first in wanted else None


def _portable(wanted: Iterable[str]) -> Iterable[tuple[int, str]]:
    """The same from ``ps``, for systems without ``/proc``."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,command="],  # noqa: S607  wherever the system has it
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        for program in wanted:
            if command.lstrip().startswith(f"{program} "):
                yield int(pid), program
