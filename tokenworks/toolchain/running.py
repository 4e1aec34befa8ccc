"""Long commands with a log: what they print is kept, the last line is shown, they can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

TAIL_LINES: Final = 15
"""How much of a log goes into an error message."""
_TICK_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0


class CommandError(Exception):
    """A command failed: which, how, and the last lines that it printed."""

    def __init__(self, command: Sequence[str], code: int, tail: Sequence[str]) -> None:
        self.code, self.tail = code, tuple(tail)
        super().__init__(f"{' '.join(command[:3])} … ended with code {code}")


class CancelledError(Exception):
    """The work was given up because other work failed or somebody interrupted it."""


class Commands:
    """Runs commands from several threads; ``cancel`` ends them all, children included."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End what runs; whatever asks afterwards gets ``CancelledError``."""
        self._cancelled.set()
        with self._lock:
            running = tuple(self._running)
        for process in running:
            _end(process)

    def check(self) -> None:
        """Raise ``CancelledError`` once ``cancel`` was called."""
        if self._cancelled.is_set():
            raise CancelledError

    def run(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        log: Path,
        tick: Callable[[int, str], None],
    ) -> None:
        """Run a command in a folder, its output appended to a log.

        ``tick`` is called about once a second with the number of lines so far and the last one.

        Raises:
            CommandError: it ended with another code than 0.
            CancelledError: ``cancel`` was called.
        """
        self.check()
        with log.open("a") as file:
            file.write(f"$ {' '.join(command)}\n")
            file.flush()
            process = self._start(command, folder, environ)
            try:
                tail = _follow(process, file, tick)
            except BaseException:
                _end(process)
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
        self.check()
        if process.returncode != 0:
            raise CommandError(command, process.returncode, tail)

    def read(self, command: Sequence[str], *, folder: Path, environ: Mapping[str, str]) -> str:
        """What a short command prints.

        Raises:
            CommandError: it ended with another code than 0.
        """
        self.check()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(command, done.returncode, done.stderr.splitlines()[-TAIL_LINES:])
        return done.stdout

    def _start(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        with self._lock:
            self.check()
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                # A group of its own, so that the compilers it starts can be ended with it.
                start_new_session=True,
            )
            self._running.add(process)
        return process


class _Output:
    """A command's output on its way into the log: how many lines so far, and the last ones."""

    def __init__(self, source: IO[str], log: IO[str]) -> None:
        self.lines = 0
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._source, self._log = source, log

    def copy(self) -> None:
        for line in self._source:
            self._log.write(line)
            self.tail.append(line.rstrip())
            self.lines += 1
        self._log.flush()


def _follow(
    process: subprocess.Popen[str], log: IO[str], tick: Callable[[int, str], None]
) -> Sequence[str]:
    """Copy the output into the log until the command ends; give back its last lines."""
    assert process.stdout is not None  # noqa: S101  it was started with a pipe
    output = _Output(process.stdout, log)
    reader = threading.Thread(target=output.copy, daemon=True)
    reader.start()
    while reader.is_alive():
        reader.join(_TICK_SECONDS)
        tick(output.lines, output.tail[-1] if output.tail else "")
    process.wait()
    return tuple(output.tail)


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a command and its children to end, and make them after a few seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_SECONDS)
