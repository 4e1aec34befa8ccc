"""A handful of processes that belong together: started in order, watched, ended in reverse.

A process is known by the path that it was started by, a link in the environment's own folder, so
that those of a run that was killed can be found and ended, and no others.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import private_folder
from tokenworks.local_cluster.processes import signal_program, started_by

PATIENCE_SECONDS: Final = 5.0
"""How long a process may take to end by itself; engines finish the answers they are giving."""
READY_SECONDS: Final = 30.0
"""The slowest here, Envoy, needs under one second; this is for machines that are very busy."""
_POLL_SECONDS: Final = 0.02
_TAIL_LINES: Final = 8


@dataclass(frozen=True, kw_only=True)
class Program:
    """One process: what runs, with which environment, and how it shows that it is ready."""

    name: str
    executable: Path
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    unready: Callable[[], str]
    """Why it is not ready yet, or nothing when it is."""
    port: int
    about: str
    ready_seconds: float = READY_SECONDS
    """How long it may take to become ready."""


@dataclass
class Supervisor:
    """The processes of one environment's gateway."""

    folder: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def log(self, name: str) -> Path:
        """What a process printed since its last start."""
        return self.folder / "logs" / f"{name}.log"

    def clear(self) -> tuple[str, ...]:
        """End what an earlier run left behind; returns the names.

        Raises:
            OperationError: one does not end.
        """
        found = self._strangers()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid, path in found:
                with suppress(ProcessLookupError):
                    signal_program(pid, path, number)
            if _wait(lambda: not self._strangers(), PATIENCE_SECONDS):
                return tuple(sorted({Path(path).name for _, path in found}))
        raise OperationError(
            "ending what an earlier run left behind",
            reason=f"these processes do not end: {self._strangers()}",
            remedy="end them by hand and try again",
        )

    def _strangers(self) -> tuple[tuple[int, str], ...]:
        links = self.folder / "bin"
        paths = [str(path) for path in links.iterdir()] if links.is_dir() else []
        return tuple(started_by(paths)) if paths else ()

    def start(self, program: Program, wait: bool = True) -> None:
        """Start a process and, unless told otherwise, wait until it is ready.

        Raises:
            OperationError: it ended or was not ready in time; with the end of its log.
        """
        link = self._link(program)
        private_folder(self.folder / "logs")
        with self.log(program.name).open("wb") as log:
            self._running[program.name] = subprocess.Popen(
                [str(link), *program.arguments],
                env=dict(program.environ),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # The terminal's Ctrl-C is ours to act on, in order.
                start_new_session=True,
            )
        if wait:
            self.await_ready(program)

    def await_ready(self, program: Program) -> None:
        """Wait until a started process is ready.

        Raises:
            OperationError: it ended or was not ready in time; with the end of its log.
        """
        process = self._running[program.name]
        done = _wait(
            lambda: process.poll() is not None or not program.unready(), program.ready_seconds
        )
        if process.poll() is not None:
            raise self._failure(program.name, f"ended with code {process.returncode}")
        if not done:
            raise self._failure(program.name, program.unready())

    def stop(self, name: str) -> None:
        """End one process, by force when it does not end in time."""
        process = self._running.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        """End everything, the last started first."""
        for name in reversed(tuple(self._running)):
            self.stop(name)

    def ended(self) -> dict[str, int]:
        """The processes that ended by themselves since the last call: name to exit code."""
        codes = {name: process.poll() for name, process in self._running.items()}
        gone = {name: code for name, code in codes.items() if code is not None}
        for name in gone:
            del self._running[name]
        return gone

    def pid(self, name: str) -> int | None:
        """The id of a running process."""
        process = self._running.get(name)
        return process.pid if process else None

    def _link(self, program: Program) -> Path:
        link = private_folder(self.folder / "bin") / program.name
        link.unlink(missing_ok=True)
        link.symlink_to(program.executable.absolute())
        return link

    def _failure(self, name: str, reason: str) -> OperationError:
        log = self.log(name)
        lines = log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        said = "\n".join(f"  {line[:300]}" for line in lines) or "  (it printed nothing)"
        return OperationError(f"starting {name}", reason=reason, remedy=f"read {log}:\n{said}")


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_SECONDS)
    return True
