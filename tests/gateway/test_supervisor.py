"""Processes that belong together: none starts half, none is left, nobody else's is touched."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tokenworks.errors import OperationError
from tokenworks.gateway.supervisor import Program, Supervisor

FOREVER = "import time\nwhile True: time.sleep(60)"


def program(name: str, script: str, unready: Callable[[], str] = lambda: "") -> Program:
    return Program(
        name=name,
        executable=Path(sys.executable).resolve(),
        arguments=("-c", script),
        environ={"PATH": os.defpath},
        unready=unready,
        port=0,
        about="a test",
    )


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    it = Supervisor(tmp_path)
    yield it
    it.stop_all()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_of(supervisor: Supervisor, name: str) -> int:
    pid = supervisor.pid(name)
    assert pid is not None
    return pid


def test_a_process_that_ends_at_once_is_an_error_with_the_end_of_its_log(
    supervisor: Supervisor,
) -> None:
    with pytest.raises(OperationError, match=r"(?s)starting a: ended with code 3; read .*sorry"):
        supervisor.start(program("a", "print('sorry'); raise SystemExit(3)", lambda: "not yet"))


def test_a_start_waits_until_the_process_is_ready(supervisor: Supervisor, tmp_path: Path) -> None:
    mark = tmp_path / "ready"
    script = f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)"
    supervisor.start(program("a", script, lambda: "" if mark.exists() else "no mark"))
    assert mark.exists()


def test_a_process_that_ends_by_itself_is_told_once(supervisor: Supervisor) -> None:
    supervisor.start(program("a", FOREVER))
    supervisor.start(program("b", FOREVER))
    os.kill(pid_of(supervisor, "a"), signal.SIGKILL)
    end = time.monotonic() + 8
    while not (ended := supervisor.ended()):
        assert time.monotonic() < end
    assert ended == {"a": -signal.SIGKILL}
    assert supervisor.ended() == {}
    assert supervisor.pid("a") is None
    assert is_there(pid_of(supervisor, "b"))


def test_everything_ends_even_what_does_not_want_to(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenworks.gateway.supervisor.PATIENCE_SECONDS", 0.2)
    deaf = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
    heard = supervisor.log("deaf")
    ready = lambda: "" if "deaf" in heard.read_text() else "still hears"  # noqa: E731
    supervisor.start(program("deaf", f"{deaf}{FOREVER}", ready))
    supervisor.start(program("b", FOREVER))
    pids = [pid_of(supervisor, name) for name in ("deaf", "b")]
    supervisor.stop_all()
    assert not any(is_there(pid) for pid in pids)


def test_what_a_killed_run_left_is_found_and_ended_and_nobody_elses(tmp_path: Path) -> None:
    mine, others = Supervisor(tmp_path / "mine"), Supervisor(tmp_path / "others")
    for each in (mine, others):
        each.start(program("engine", FOREVER))
    left, kept = pid_of(mine, "engine"), pid_of(others, "engine")
    after_the_kill = Supervisor(tmp_path / "mine")
    try:
        assert after_the_kill.clear() == ("engine",)
        assert after_the_kill.clear() == ()
        assert mine.ended() == {"engine": -signal.SIGTERM}
        assert not is_there(left)
        assert is_there(kept)
    finally:
        others.stop_all()
        mine.stop_all()


def test_a_first_run_has_nothing_to_clear(tmp_path: Path) -> None:
    assert Supervisor(tmp_path / "new").clear() == ()


def test_the_terminals_interrupt_does_not_reach_the_processes(supervisor: Supervisor) -> None:
    supervisor.start(program("a", FOREVER))
    pid = pid_of(supervisor, "a")
    assert os.getpgid(pid) == pid != os.getpgid(0)
