"""A volume is filled from a server or a folder, and shows a revision only when it is whole."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.weights.source_server import SourceServer, serving
from tests.weights.tool import MIB, MODEL, TOOLS, Volume, made_up, run

LARGE = "model-00001-of-00002.safetensors"


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path, made_up(1))


@pytest.fixture
def server(volume: Volume) -> Iterator[SourceServer]:
    with serving(volume.files) as source:
        yield source


def http(server: SourceServer) -> dict[str, object]:
    return {"url": server.url, "stall_seconds": 5}


def test_a_volume_is_filled_from_a_server(volume: Volume, server: SourceServer) -> None:
    done = volume.run(http(server))
    assert done.returncode == 0, done.stderr
    assert volume.state() == volume.files
    assert "is published, 5 files as listed" in done.stdout
    assert sorted(one.name for one in volume.path.iterdir()) == [
        ".incoming",
        ".lock",
        volume.revision,
    ]
    assert list((volume.path / ".incoming").iterdir()) == []


def test_no_published_file_can_be_written(volume: Volume, server: SourceServer) -> None:
    assert volume.run(http(server)).returncode == 0
    modes = {file.stat().st_mode & 0o777 for file in volume.published.rglob("*") if file.is_file()}
    assert modes == {0o444}


def test_no_more_connections_are_open_than_were_planned(
    volume: Volume, server: SourceServer
) -> None:
    server.bytes_per_second = 4 * MIB
    assert volume.run(http(server)).returncode == 0
    assert server.most_at_once == 3


def test_progress_is_told_with_rate_and_time_left(volume: Volume, server: SourceServer) -> None:
    server.bytes_per_second = 2 * MIB
    said = volume.run(http(server)).stdout
    assert " GB (" in said
    assert " MiB/s, 0 min " in said
    assert " s left" in said


def test_a_volume_is_filled_from_a_folder(volume: Volume, tmp_path: Path) -> None:
    folder = tmp_path / "store" / "kept"
    write(folder, volume.files)
    assert volume.run({"folder": str(folder)}).returncode == 0
    assert volume.state() == volume.files


def test_links_in_a_folder_are_followed_within_it_and_nowhere_else(
    volume: Volume, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    write(folder, volume.files)
    (folder / LARGE).rename(folder / "blob")
    (folder / LARGE).symlink_to("blob")
    assert volume.run({"folder": str(folder)}).returncode == 0
    outside = Volume(tmp_path / "other", volume.files)
    outside.folder.mkdir()
    (folder / "blob").rename(tmp_path / "blob")
    (folder / LARGE).unlink()
    (folder / LARGE).symlink_to("../blob")
    done = outside.run({"folder": str(folder)})
    assert done.returncode == 3
    assert f"refused: {LARGE}: leads out of the source's folder" in done.stderr
    assert outside.state() is None


def write(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def truncated(files: dict[str, bytes]) -> None:
    files[LARGE] = files[LARGE][:-1]


def longer(files: dict[str, bytes]) -> None:
    files[LARGE] += b"x"


def changed(files: dict[str, bytes]) -> None:
    files[LARGE] = files[LARGE][:1000] + b"?" + files[LARGE][1001:]


def lost(files: dict[str, bytes]) -> None:
    del files[LARGE]


REFUSALS = [
    (truncated, f"{LARGE}: the source has 2109496 bytes, listed are 2109497"),
    (longer, f"{LARGE}: the source has 2109498 bytes, listed are 2109497"),
    (changed, f"{LARGE}: arrives with sum"),
    (lost, LARGE),
]


@pytest.mark.parametrize(("damage", "said"), REFUSALS)
@pytest.mark.parametrize("kind", ["server", "folder"])
def test_a_source_with_other_files_is_refused_with_the_name_and_nothing_is_published(
    volume: Volume,
    server: SourceServer,
    tmp_path: Path,
    kind: str,
    damage: Callable[[dict[str, bytes]], None],
    said: str,
) -> None:
    damage(server.files)
    write(tmp_path / "store", server.files)
    source = http(server) if kind == "server" else {"folder": str(tmp_path / "store")}
    done = volume.run(source)
    assert done.returncode == 3
    assert f"refused: {said}" in done.stderr
    assert "trying again cannot help" in done.stderr
    assert volume.state() is None


def test_files_that_nobody_listed_are_not_published(volume: Volume, server: SourceServer) -> None:
    server.files["pickle.bin"] = b"code"
    left = volume.path / ".incoming" / volume.revision / "files"
    write(left / MODEL, {"stranger.bin": b"left by somebody", "config.json/inner": b""})
    write(left, {"beside.bin": b""})
    (left / MODEL / "tokenizer").symlink_to("/etc")
    (left / MODEL / LARGE).symlink_to("/etc/passwd")
    assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files
    assert not [one for one in volume.path.rglob("*") if one.is_symlink()]


@pytest.mark.parametrize(
    "path", ["../escape", "/etc/passwd", "a/../../b", "a//b", "./a", "a/", "", "a\\b", "a\0b"]
)
def test_a_manifest_whose_paths_leave_the_folder_is_refused(
    tmp_path: Path, server: SourceServer, path: str
) -> None:
    volume = Volume(tmp_path, {}, entries=[{"path": path, "bytes": 1, "sha256": "0" * 64}])
    done = volume.run(http(server))
    assert done.returncode == 3
    assert "is no path below the model's folder" in done.stderr
    assert server.asked == []


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b")])
def test_a_manifest_that_lists_one_place_twice_is_refused(
    tmp_path: Path, server: SourceServer, paths: tuple[str, str]
) -> None:
    entries = [{"path": path, "bytes": 1, "sha256": "0" * 64} for path in paths]
    done = Volume(tmp_path, {}, entries=entries).run(http(server))
    assert done.returncode == 3
    assert "a: is listed twice, or as a file and a folder" in done.stderr


def test_a_revision_that_is_there_is_checked_and_not_fetched_again(
    volume: Volume, server: SourceServer
) -> None:
    assert volume.run(http(server)).returncode == 0
    server.asked.clear()
    assert volume.run(http(server)).returncode == 0
    assert server.asked == []
    assert volume.state() == volume.files


def test_a_revision_that_was_put_there_by_others_needs_no_source(volume: Volume) -> None:
    """As FSx for Lustre brings it from a bucket into a network without a way to the source."""
    write(volume.published, volume.files)
    for file in volume.published.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o444)
    done = volume.run({"url": "http://127.0.0.1:1/", "stall_seconds": 5})
    assert done.returncode == 0, done.stderr
    assert "is published, 5 files as listed" in done.stdout
    assert volume.state() == volume.files


def test_a_part_of_a_revision_that_others_put_there_is_not_shown(volume: Volume) -> None:
    part = dict(volume.files)
    lost(part)
    write(volume.published, part)
    done = volume.run({"url": "http://127.0.0.1:1/", "stall_seconds": 5})
    assert done.returncode == 1
    assert volume.state() is None


def damage_a_byte(volume: Volume) -> None:
    file = volume.published / LARGE
    content = bytearray(file.read_bytes())
    content[77] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)


def cut_short(volume: Volume) -> None:
    (volume.published / LARGE).chmod(0o644)
    os.truncate(volume.published / LARGE, 100_000)


def add_a_stranger(volume: Volume) -> None:
    (volume.published / "model-00003.safetensors").write_bytes(b"?")


def put_something_beside(volume: Volume) -> None:
    (volume.published.parent / "other").write_bytes(b"?")


def replace_by_a_link(volume: Volume) -> None:
    copy = volume.folder / "copy"
    (volume.published / LARGE).rename(copy)
    (volume.published / LARGE).symlink_to(copy)


@pytest.mark.parametrize(
    "damage", [damage_a_byte, cut_short, add_a_stranger, put_something_beside, replace_by_a_link]
)
def test_a_damaged_revision_is_withdrawn_and_mended(
    volume: Volume, server: SourceServer, damage: Callable[[Volume], None]
) -> None:
    assert volume.run(http(server)).returncode == 0
    damage(volume)
    server.asked.clear()
    done = volume.run(http(server))
    assert done.returncode == 0, done.stderr
    assert "damaged: " in done.stdout
    assert volume.state() == volume.files
    assert {one.path for one in server.asked} <= {f"/{LARGE}"}


def test_an_empty_folder_that_a_node_made_is_no_revision(
    volume: Volume, server: SourceServer
) -> None:
    (volume.path / volume.revision).mkdir(parents=True)
    assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files


def test_two_revisions_lie_side_by_side(tmp_path: Path) -> None:
    for seed, name in ((1, "a" * 12 + "-" + "b" * 12), (2, "c" * 12 + "-" + "d" * 12)):
        volume = Volume(tmp_path, made_up(seed), name)
        with serving(volume.files) as source:
            assert volume.run(http(source)).returncode == 0
    for seed, name in ((1, "a" * 12 + "-" + "b" * 12), (2, "c" * 12 + "-" + "d" * 12)):
        assert Volume(tmp_path, made_up(seed), name).state() == made_up(seed)


def test_a_second_run_waits_for_the_first_and_finds_its_work_done(
    volume: Volume, server: SourceServer
) -> None:
    server.bytes_per_second = 2 * MIB
    command = [sys.executable, *volume.command(http(server))]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        said = [one.communicate(timeout=60)[0] for one in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert "".join(said).count("another run holds the volume") == 1
    assert len(server.asked) == len([one for one in volume.files.values() if one])
    assert volume.state() == volume.files


def test_a_volume_that_is_held_is_not_touched(volume: Volume, server: SourceServer) -> None:
    command = [sys.executable, *volume.command(http(server))]
    with (volume.path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout
            assert "another run holds the volume" in waiting.stdout.readline()
            assert [one.name for one in volume.path.iterdir()] == [".lock"]
            waiting.terminate()
    assert waiting.returncode == 128 + 15
    assert server.asked == []


def test_a_published_revision_passes_the_gate(volume: Volume, server: SourceServer) -> None:
    command = volume.command(http(server))
    assert run(command).returncode == 0
    gate = run([str(TOOLS / "verify.py"), command[2], str(volume.published), "2"])
    assert gate.returncode == 0, gate.stderr


def test_a_run_that_is_asked_to_end_ends_at_once_and_the_next_continues(
    volume: Volume, server: SourceServer
) -> None:
    server.bytes_per_second = MIB // 2
    command = [sys.executable, *volume.command(http(server))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        left = volume.path / ".incoming" / volume.revision / "files" / MODEL / LARGE
        while not left.exists():
            time.sleep(0.02)
        running.terminate()
    assert running.returncode == 128 + 15
    assert volume.state() is None
    server.bytes_per_second = None
    assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files
