"""However often a run is killed, wherever: what is published is what was listed, or nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.weights.source_server import serving
from tests.weights.tool import MIB, Volume, made_up, run

KILLED = -9
FILES = made_up(3, large=3 * MIB + 7)

BOMB = """
import os, signal, sys

LEFT = int(sys.argv[1])
EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.utime",
          "os.truncate", "shutil.rmtree", "os.scandir", "os.listdir"}

def count(event, args):
    global LEFT
    if event in EVENTS and VOLUME in str(args[0] if args else ""):
        LEFT -= 1
        if LEFT == 0:
            os.kill(os.getpid(), signal.SIGKILL)

tool, *arguments = sys.argv[2:]
VOLUME = arguments[-1]
sys.argv = [tool, *arguments]
sys.path.insert(0, os.path.dirname(tool))
import populate
sys.addaudithook(count)
status = populate.main(*arguments)
print("events left:", LEFT)
sys.exit(status)
"""
"""Runs the tool and kills it when it has touched the volume so many times."""

ENDLESS = 10**6


def armed(command: list[str], events: int) -> subprocess.CompletedProcess[str]:
    return run(["-c", BOMB, str(events), *command])


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How often an undisturbed run touches its volume."""
    volume = Volume(tmp_path_factory.mktemp("undisturbed"), FILES)
    with serving(FILES) as source:
        done = armed(volume.command({"url": source.url}), ENDLESS)
    assert done.returncode == 0, done.stderr
    return ENDLESS - int(done.stdout.rpartition("events left:")[2])


def nothing_or_all(volume: Volume) -> bool:
    """Whether all is published; anything between fails."""
    state = volume.state()
    assert state in (None, FILES)
    return state is not None


def test_an_undisturbed_run_touches_the_volume_often_enough_to_be_killed(steps: int) -> None:
    assert steps > 40


@pytest.mark.parametrize("kind", ["server", "folder"])
def test_a_run_may_be_killed_at_any_step(tmp_path: Path, steps: int, kind: str) -> None:
    folder = tmp_path / "source"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    stride = 2 if kind == "server" else 5
    with serving(FILES) as source:
        for step in range(1, steps, stride):
            volume = Volume(tmp_path / str(step), FILES)
            volume.folder.mkdir()
            where = {"url": source.url} if kind == "server" else {"folder": str(folder)}
            assert armed(volume.command(where), step).returncode == KILLED
            nothing_or_all(volume)
            if step % 7 == 1:
                assert volume.run(where).returncode == 0
                assert nothing_or_all(volume)


@settings(
    max_examples=12,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(kills=st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_after_any_row_of_kills_the_next_run_publishes_all(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int]
) -> None:
    volume = Volume(tmp_path_factory.mktemp("kills"), FILES)
    with serving(FILES) as source:
        for step in kills:
            assert armed(volume.command({"url": source.url}), step).returncode in (KILLED, 0)
            nothing_or_all(volume)
        assert volume.run({"url": source.url}).returncode == 0
    assert nothing_or_all(volume)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_is_killed_while_bytes_arrive_continues_and_ends(
    tmp_path: Path, seed: int
) -> None:
    """Each run is killed once the server has sent a drawn number of bytes."""
    draw = random.Random(seed)
    files = made_up(seed, large=9 * MIB)
    volume = Volume(tmp_path, files)
    with serving(files) as source:
        source.bytes_per_second = 8 * MIB
        for _ in range(3):
            before = source.sent
            enough = before + draw.randrange(3 * MIB, 4 * MIB)
            command = [sys.executable, *volume.command({"url": source.url})]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
                while source.sent < enough and running.poll() is None:
                    time.sleep(0.005)
                running.kill()
            assert volume.state() in (None, files)
        source.bytes_per_second = None
        assert volume.run({"url": source.url}).returncode == 0
        resumed = [one for one in source.asked if "Range" in one.headers]
    assert volume.state() == files
    assert resumed


def test_a_damaged_revision_that_is_being_mended_is_nothing_or_whole(
    tmp_path: Path, steps: int
) -> None:
    draw = random.Random(5)
    with serving(FILES) as source:
        for step in sorted(draw.sample(range(1, steps), 8)):
            volume = Volume(tmp_path / str(step), FILES)
            volume.folder.mkdir()
            assert volume.run({"url": source.url}).returncode == 0
            file = volume.published / "config.json"
            file.chmod(0o644)
            file.write_bytes(b"x" * len(FILES["config.json"]))
            damaged = volume.state()
            armed(volume.command({"url": source.url}), step)
            assert volume.state() in (damaged, None, FILES)
            assert volume.run({"url": source.url}).returncode == 0
            assert nothing_or_all(volume)
