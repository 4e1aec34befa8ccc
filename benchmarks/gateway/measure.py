"""Measuring one subject: the load generator's report, and what the subject's processes used."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.gateway.subjects import Subject
from tokenworks.errors import OperationError

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROMPT: Final = "word " * 60


@dataclass(frozen=True, kw_only=True)
class Load:
    """One way of asking: how many at a time, for how long, and what the engine does."""

    name: str
    stream: bool
    connections: int
    seconds: float
    tokens: int
    inter_token_seconds: float
    hold: bool = False
    ramp: int = 250
    """Streams opened in a second, where they are held."""


FIRST_TOKEN: Final = Load(
    name="first token", stream=True, connections=1, seconds=4, tokens=4, inter_token_seconds=0.002
)
INTER_TOKEN: Final = Load(
    name="inter-token", stream=True, connections=8, seconds=4, tokens=32, inter_token_seconds=0.01
)
REQUESTS: Final = Load(
    name="requests", stream=False, connections=16, seconds=4, tokens=16, inter_token_seconds=0
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one load gave: times in milliseconds, memory in MiB, processor time in seconds."""

    load: str
    requests: int
    errors: int
    first_error: str
    seconds: float
    first_token_ms: tuple[float, float]
    inter_token_ms: tuple[float, float]
    cpu_seconds: float
    generator_cpu_seconds: float
    memory_mib: float
    most_at_a_time: int

    @property
    def requests_per_second(self) -> float:
        """Whole answers in a second of the clock."""
        return self.requests / self.seconds

    @property
    def requests_per_core_second(self) -> float:
        """Whole answers for each second of processor time that the subject itself used."""
        return self.requests / self.cpu_seconds if self.cpu_seconds else 0.0


def measure(generator: Path, folder: Path, subject: Subject, load: Load) -> Measured:
    """Put one load on one subject, with the engine behind it as the load wants it.

    Raises:
        OperationError: the load generator could not run.
    """
    _set_engine(subject.control, load)
    body = folder / "body.json"
    body.write_text(json.dumps(_body(subject.model, load)))
    options: dict[str, object] = {
        "address": subject.address,
        "name": subject.server_name,
        "ca": subject.authority,
        "headers": subject.headers,
        "body": body,
        "connections": load.connections,
        "seconds": load.seconds,
        "hold": str(load.hold).lower(),
        "ramp": load.ramp,
    }
    command = [str(generator), *(f"-{name}={value}" for name, value in options.items())]
    before = _cpu_seconds(subject.pids)
    with _Memory(subject.pids) as memory:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OperationError(
            f"load on {subject.name}", reason=done.stderr.strip(), remedy="see that it still runs"
        )
    return _measured(load, json.loads(done.stdout), _cpu_seconds(subject.pids) - before, memory)


def _set_engine(control: int, load: Load) -> None:
    settings = {
        "first_token_seconds": 0,
        "inter_token_seconds": load.inter_token_seconds,
        "output_tokens": load.tokens,
        "recorded_requests": 0,
    }
    connection = http.client.HTTPConnection("127.0.0.1", control, timeout=10)
    with contextlib.closing(connection):
        connection.request("PATCH", "/settings", json.dumps(settings))
        if connection.getresponse().status != http.client.OK:
            raise OperationError("the engine", reason="refuses its settings", remedy="see its log")


def _body(model: str, load: Load) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": _PROMPT}],
        "max_tokens": load.tokens,
        "stream": load.stream,
    }


def _measured(load: Load, said: Mapping[str, Any], cpu: float, memory: _Memory) -> Measured:
    return Measured(
        load=load.name,
        requests=said["requests"],
        errors=said["errors"],
        first_error=said.get("first_error", ""),
        seconds=said["seconds"],
        first_token_ms=(said["first_token_ms"]["p50"], said["first_token_ms"]["p99"]),
        inter_token_ms=(said["inter_token_ms"]["p50"], said["inter_token_ms"]["p99"]),
        cpu_seconds=cpu,
        generator_cpu_seconds=said["cpu_seconds"],
        memory_mib=memory.most_mib,
        most_at_a_time=said["most_at_a_time"],
    )


class _Memory:
    """The most resident memory of some processes together, looked at now and then."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._pids, self.most_mib = pids, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.most_mib = max(self.most_mib, sum(map(_resident_mib, self._pids)))
            if self._over.wait(0.5):
                return


def _resident_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_seconds(pids: tuple[int, ...]) -> float:
    return sum(map(_cpu_of, pids))


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime and stime: fields 14 and 15 of the line, of which two came before.
    return (int(fields[11]) + int(fields[12])) / _TICKS
