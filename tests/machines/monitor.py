"""Orders to an emulator that runs: cables, standing still, memory written out (QEMU's QMP)."""

from __future__ import annotations

import json
import shlex
import socket
import time
from pathlib import Path
from typing import Any, Final, Self

PATIENCE_SECONDS: Final = 120


class Monitor:
    """A conversation with one emulator."""

    def __init__(self, place: Path, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Connect to the emulator's socket."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience_seconds)
        self._socket.connect(str(place))
        self._lines = self._socket.makefile("rw")
        self._lines.readline()  # the greeting
        self.order("qmp_capabilities")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def order(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Give one order and return what the emulator answers."""
        said = {"execute": command} | ({"arguments": arguments} if arguments else {})
        self._lines.write(json.dumps(said) + "\n")
        self._lines.flush()
        while "event" in (answer := self._heard()):
            pass
        assert "return" in answer, f"{command}: {answer}"
        found: dict[str, Any] = answer["return"]
        return found

    def wait_for(self, event: str) -> None:
        """Wait until the emulator tells of an event, such as RESET."""
        while self._heard().get("event") != event:
            pass

    def _heard(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self._lines.readline())
        return heard


def order(place: Path, command: str, **arguments: Any) -> dict[str, Any]:
    """Give one order over the monitor's socket and return what it answers."""
    with Monitor(place) as monitor:
        return monitor.order(command, **arguments)


def write_memory(place: Path, file: Path) -> None:
    """Let the machine stand still for good and write its memory and devices to a file."""
    order(place, "stop")
    # No limit worth the name: what is copied is a file on this very machine.
    order(place, "migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    order(place, "migrate", uri=f"exec:cat > {shlex.quote(str(file))}")
    _until(place, "query-migrate", "completed")


def read_memory(file: Path) -> tuple[str, str]:
    """Return the emulator's options to begin with memory and devices from a file."""
    return "-incoming", f"exec:cat {shlex.quote(str(file))}"


def go_on(place: Path) -> None:
    """Let a machine run whose memory is being read."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not place.exists():
        assert time.monotonic() < deadline, f"the emulator made no {place}"
        time.sleep(0.05)
    _until(place, "query-status", "paused")
    order(place, "cont")


def _until(place: Path, question: str, wanted: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (status := order(place, question)["status"]) != wanted:
        failed = status == "failed" or time.monotonic() > deadline
        assert not failed, f"{question}: {status}"
        time.sleep(0.1)
