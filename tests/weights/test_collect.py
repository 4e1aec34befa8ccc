"""Old revisions go when no release uses them, and never sooner."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.weights.tool import TOOLS, run

NAMES = [f"{letter * 12}-{letter * 12}" for letter in "abcdef"]


@pytest.fixture(scope="module")
def collector() -> Any:
    """The tool as a module, for its decision without a volume."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module("collect")
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with revisions a to f, f asked for last."""
    folder = tmp_path / "volume"
    for age, name in enumerate(NAMES):
        (folder / name / "model").mkdir(parents=True)
        (folder / name / "model" / "weights").write_bytes(name.encode())
        (folder / name / "model" / "weights").chmod(0o444)
        os.utime(folder / name, (1000 + age, 1000 + age))
    return folder


def collect(volume: Path, in_use: Sequence[str], previous: int) -> subprocess.CompletedProcess[str]:
    settings = volume.parent / "settings.json"
    settings.write_text(json.dumps({"in_use": list(in_use), "previous": previous}))
    return run([str(TOOLS / "collect.py"), str(settings), str(volume)])


def left(volume: Path) -> list[str]:
    return sorted(one.name for one in volume.iterdir() if one.name != ".lock")


@pytest.mark.parametrize(
    ("in_use", "previous", "stay"),
    [
        ("f", 0, "f"),
        ("f", 1, "ef"),
        ("a", 0, "a"),
        ("a", 1, "af"),
        ("ac", 2, "acef"),
        ("f", 9, "abcdef"),
    ],
)
def test_revisions_in_use_and_those_asked_for_last_stay(
    volume: Path, in_use: str, previous: int, stay: str
) -> None:
    done = collect(volume, [NAMES["abcdef".index(one)] for one in in_use], previous)
    assert done.returncode == 0, done.stderr
    assert left(volume) == [NAMES["abcdef".index(one)] for one in stay]
    for name in NAMES:
        assert f"{name}: {'stays' if name[0] in stay else 'is removed'}" in done.stdout


def test_nothing_goes_where_a_revision_in_use_is_not_there(volume: Path) -> None:
    gone = "0" * 12 + "-" + "0" * 12
    done = collect(volume, [NAMES[0], gone], 0)
    assert done.returncode == 3
    assert f"refused: {gone}: is in use, and not on this volume; nothing was removed" in done.stderr
    assert left(volume) == NAMES


def test_what_is_no_revision_stays(volume: Path) -> None:
    (volume / "notes").mkdir()
    (volume / NAMES[0] / "model" / "weights").unlink()
    (volume / ("9" * 12 + "-" + "9" * 12)).symlink_to("notes")
    assert collect(volume, [NAMES[5]], 0).returncode == 0
    assert left(volume) == ["9" * 12 + "-" + "9" * 12, NAMES[5], "notes"]


def test_what_was_never_whole_goes_unless_a_release_waits_for_it(volume: Path) -> None:
    for name in (NAMES[5], "0" * 12 + "-" + "0" * 12):
        (volume / ".incoming" / name / "files").mkdir(parents=True)
    done = collect(volume, [NAMES[5]], 9)
    assert done.returncode == 0
    assert [one.name for one in (volume / ".incoming").iterdir()] == [NAMES[5]]
    assert "was never whole, and is removed" in done.stdout


def test_what_a_killed_run_took_out_of_sight_is_removed_by_the_next(volume: Path) -> None:
    (volume / ".removed").mkdir()
    (volume / NAMES[0]).rename(volume / ".removed" / NAMES[0])
    assert collect(volume, [NAMES[5]], 9).returncode == 0
    assert left(volume) == NAMES[1:]


def test_collecting_waits_for_a_volume_that_is_being_filled(volume: Path) -> None:
    settings = volume.parent / "settings.json"
    settings.write_text(json.dumps({"in_use": [NAMES[5]], "previous": 0}))
    command = [sys.executable, str(TOOLS / "collect.py"), str(settings), str(volume)]
    with (volume / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert waiting.stdout
        assert "another run holds the volume" in waiting.stdout.readline()
        assert left(volume) == NAMES
    with waiting:
        waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert left(volume) == [NAMES[5]]


@given(
    found=st.lists(st.sampled_from(NAMES), unique=True),
    in_use=st.lists(st.sampled_from(NAMES), unique=True),
    previous=st.integers(0, 4),
)
def test_whatever_is_decided_no_revision_in_use_goes(
    collector: Any, found: list[str], in_use: list[str], previous: int
) -> None:
    if set(in_use) - set(found):
        with pytest.raises(collector.RefusedError, match="is in use, and not on this volume"):
            collector.decide(found, in_use, previous)
        return
    decisions = collector.decide(found, in_use, previous)
    goes = [name for name, stays, _ in decisions if not stays]
    assert sorted(name for name, _, _ in decisions) == sorted(found)
    assert not set(goes) & set(in_use)
    others = [name for name in found if name not in in_use]
    assert goes == others[previous:]
