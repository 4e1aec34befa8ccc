"""Finding and ending every process of one run.

Ansible's workers open sessions of their own (ansible-core 2.19, ``executor/process/worker.py``), so
that ending the process group, as ansible-runner does, leaves a running task behind
(ansible-runner#973). Every process of a run carries the run's mark in its environment instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "TOKENWORKS_RUN"
PATIENCE_SECONDS: Final = 5


def leftovers(mark: str) -> tuple[int, ...]:
    """Return the processes of a run, without the one that asks."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            process = int(folder.name)
            if process != os.getpid() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return tuple(sorted(found))


def end_leftovers(mark: str) -> tuple[int, ...]:
    """End every process of a run; return those that could not be ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := leftovers(mark)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    return left
