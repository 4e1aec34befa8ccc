"""Servers break, stall, lie and move; what is published is what was listed, or nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.weights.source_server import Fault, SourceServer, serving
from tests.weights.tool import MIB, MODEL, REVISION, Volume, made_up

LARGE = "model-00001-of-00002.safetensors"
HALF = MIB + 1000


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path, made_up(1))


@pytest.fixture
def server(volume: Volume) -> Iterator[SourceServer]:
    with serving(volume.files) as source:
        yield source


def http(server: SourceServer) -> dict[str, object]:
    return {"url": server.url, "stall_seconds": 1}


PASSING = [
    Fault(status=500),
    Fault(status=503, headers={"Retry-After": "0"}),
    Fault(status=503, headers={"Retry-After": "Sun, 29 Nov 2026 10:00:00 GMT"}),
    Fault(status=503, headers={"Retry-After": "soon"}),
    Fault(status=429),
    Fault(status=408),
    Fault(cut_after=0),
    Fault(cut_after=HALF),
    Fault(stall_after=0),
    Fault(stall_after=HALF),
    Fault(chunked=True),
    Fault(chunked=True, cut_after=HALF),
    Fault(no_ranges=True, cut_after=HALF),
]


@pytest.mark.parametrize("fault", PASSING, ids=repr)
def test_a_fault_that_passes_costs_a_request(
    volume: Volume, server: SourceServer, fault: Fault
) -> None:
    server.faults[LARGE] = [fault]
    done = volume.run(http(server))
    assert done.returncode == 0, done.stderr
    assert volume.state() == volume.files
    assert len(server.ranges_of(LARGE)) == (1 if fault == Fault(chunked=True) else 2)


@pytest.mark.parametrize("etags", [True, False])
def test_a_broken_file_continues_where_it_broke(
    volume: Volume, server: SourceServer, etags: bool
) -> None:
    server.etags = etags
    server.faults[LARGE] = [Fault(cut_after=HALF)]
    assert volume.run(http(server)).returncode == 0
    assert server.ranges_of(LARGE) == [None, f"bytes={HALF}-"]
    marks = [one.headers.get("If-Range") for one in server.asked if one.path == f"/{LARGE}"]
    assert [mark is not None for mark in marks] == [False, etags]


def test_a_weak_etag_is_no_mark_of_a_version(volume: Volume, server: SourceServer) -> None:
    server.faults[LARGE] = [Fault(cut_after=HALF, headers={"ETag": 'W/"1"'})]
    assert volume.run(http(server)).returncode == 0
    assert not any("If-Range" in one.headers for one in server.asked)


def test_a_file_that_changed_meanwhile_is_fetched_from_the_start(
    volume: Volume, server: SourceServer
) -> None:
    old = b"an older version" * MIB
    size = len(volume.files[LARGE])
    server.faults[LARGE] = [
        Fault(content=old[:size], cut_after=HALF, headers={"ETag": '"old"'}),
    ]
    done = volume.run(http(server))
    assert done.returncode == 0
    assert volume.state() == volume.files
    assert server.ranges_of(LARGE) == [None, f"bytes={HALF}-"]


def test_a_beginning_with_the_wrong_content_is_fetched_once_more(
    volume: Volume, server: SourceServer
) -> None:
    """Without a mark only the sum tells that the beginning is another version's."""
    server.etags = False
    old = b"an older version" * MIB
    server.faults[LARGE] = [Fault(content=old[: len(volume.files[LARGE])], cut_after=HALF)]
    done = volume.run(http(server))
    assert done.returncode == 0
    assert "has the wrong sum, and is fetched anew" in done.stdout
    assert server.ranges_of(LARGE) == [None, f"bytes={HALF}-", None]
    assert volume.state() == volume.files


def test_a_server_that_answers_with_another_range_is_not_believed(
    volume: Volume, server: SourceServer
) -> None:
    wrong = {"Content-Range": f"bytes 5-{len(volume.files[LARGE]) - 1}/{len(volume.files[LARGE])}"}
    server.faults[LARGE] = [Fault(cut_after=HALF), Fault(headers=wrong)]
    assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files


def test_a_server_that_never_recovers_is_left_after_so_many_attempts_and_found_again(
    volume: Volume, server: SourceServer
) -> None:
    server.every = Fault(status=500)
    server.faults[LARGE] = [Fault(cut_after=HALF)]
    done = volume.run(http(server))
    assert done.returncode == 1
    assert "answers 500" in done.stderr
    assert "another run continues here" in done.stderr
    assert volume.state() is None
    server.every = None
    server.asked.clear()
    assert volume.run(http(server)).returncode == 0
    assert server.ranges_of(LARGE) == [f"bytes={HALF}-"]
    assert volume.state() == volume.files


def test_a_server_that_is_not_there_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    with serving({}) as gone:
        source = http(gone)
    done = Volume(tmp_path, made_up(1)).run(source)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr


def test_a_connection_that_breaks_on_and_on_ends_as_long_as_enough_arrives(tmp_path: Path) -> None:
    volume = Volume(tmp_path, made_up(1, large=8 * MIB))
    with serving(volume.files) as server:
        server.faults[LARGE] = [Fault(cut_after=MIB)] * 7  # more often than attempts
        assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files


def test_a_file_that_is_fetched_anew_has_all_its_attempts_again(tmp_path: Path) -> None:
    volume = Volume(tmp_path, made_up(1, large=8 * MIB))
    with serving(volume.files) as server:
        server.etags = False
        size = len(volume.files[LARGE])
        old = Fault(content=(b"old" * (3 * MIB))[:size], cut_after=MIB)
        server.faults[LARGE] = [old, Fault(), *[Fault(cut_after=MIB)] * 6]
        assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files


def test_a_connection_that_trickles_is_left(volume: Volume, server: SourceServer) -> None:
    server.faults[LARGE] = [Fault(cut_after=10)] * 100
    done = volume.run(http(server))
    assert done.returncode == 1
    assert f"{LARGE}: ended after 40 of" in done.stderr


@pytest.mark.parametrize("status", [401, 403, 404, 410, 400])
def test_a_server_that_refuses_is_not_asked_again(
    volume: Volume, server: SourceServer, status: int
) -> None:
    server.faults[LARGE] = [Fault(status=status)]
    done = volume.run(http(server))
    assert done.returncode == 3
    assert f"refused: {LARGE}: {server.url}{LARGE} answers {status}" in done.stderr
    assert len(server.ranges_of(LARGE)) == 1
    assert volume.state() is None


def test_a_length_that_is_not_listed_is_refused_before_it_is_read(
    volume: Volume, server: SourceServer
) -> None:
    server.faults[LARGE] = [Fault(says_length=10**12)]
    done = volume.run(http(server))
    assert done.returncode == 3
    assert f"{LARGE}: the source has 1000000000000 bytes, listed are" in done.stderr


def test_an_answer_without_a_length_ends_at_the_listed_size(
    volume: Volume, server: SourceServer
) -> None:
    server.faults[LARGE] = [Fault(chunked=True, content=volume.files[LARGE] + b"x" * 3 * MIB)]
    done = volume.run(http(server))
    assert done.returncode == 3
    assert f"{LARGE}: the source has more than {len(volume.files[LARGE])} bytes" in done.stderr
    left = volume.path / ".incoming" / REVISION / "files" / MODEL / LARGE
    assert left.stat().st_size <= len(volume.files[LARGE])


def test_redirects_are_followed_to_other_servers(volume: Volume, server: SourceServer) -> None:
    with serving(volume.files) as other:
        server.every = Fault(status=302, headers={"Location": other.url + LARGE})
        server.files.pop(LARGE)
        for path in volume.files:
            server.faults[path] = [
                Fault(status=307, headers={"Location": other.url + quoted(path)})
            ]
        assert volume.run(http(server)).returncode == 0
        assert len(other.asked) == len([one for one in volume.files.values() if one])
    assert volume.state() == volume.files


def quoted(path: str) -> str:
    return path.replace(" ", "%20")


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirects_to_something_else_than_http_are_refused(
    volume: Volume, server: SourceServer, address: str
) -> None:
    server.faults[LARGE] = [Fault(status=302, headers={"Location": address})]
    done = volume.run(http(server))
    assert done.returncode == 3
    assert address in done.stderr


def test_endless_redirects_end(volume: Volume, server: SourceServer) -> None:
    server.faults[LARGE] = [Fault(status=302, headers={"Location": f"/{LARGE}"})] * 20
    assert volume.run(http(server)).returncode == 3
    assert len(server.ranges_of(LARGE)) <= 6


def test_what_is_secret_in_an_address_is_not_told(volume: Volume, server: SourceServer) -> None:
    with serving({}) as other:
        signed = f"{other.url}{LARGE}?X-Amz-Signature=hush"
        server.faults[LARGE] = [Fault(status=302, headers={"Location": signed})]
        done = volume.run(http(server))
    assert done.returncode == 3
    assert "hush" not in done.stdout + done.stderr
    assert "hush" in other.asked[0].path


def test_an_address_that_expired_is_asked_for_again(volume: Volume, server: SourceServer) -> None:
    with serving(volume.files) as other:
        other.faults[LARGE] = [Fault(status=403)]
        server.faults[LARGE] = [Fault(status=302, headers={"Location": other.url + LARGE})] * 2
        assert volume.run(http(server)).returncode == 0
        assert len(other.asked) == 2


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many bytes where the volume is to be."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root; a full volume is not tested here")
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / "volume"
        folder.mkdir()
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"no file system can be mounted here ({made.stderr.strip()})")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)  # noqa: S607


def test_a_volume_without_room_is_refused_before_the_first_byte(
    volume: Volume, server: SourceServer, small_volume: Callable[[int], Path]
) -> None:
    other = "a" * 12 + "-" + "b" * 12
    (small_volume(66 * MIB) / other).mkdir()
    done = volume.run(http(server))
    assert done.returncode == 3
    assert "bytes are needed and" in done.stderr
    assert f"on the volume are the revisions {other}" in done.stderr
    assert server.asked == []


def finished(file: Path) -> bool:
    return file.exists() and file.stat().st_mode & 0o777 == 0o444


def test_a_volume_that_fills_up_meanwhile_is_refused_by_name_and_shows_nothing(
    volume: Volume, server: SourceServer, small_volume: Callable[[int], Path]
) -> None:
    folder = small_volume(70 * MIB)
    server.faults[LARGE] = [Fault(stall_after=HALF)]
    command = volume.command({"url": server.url, "stall_seconds": 2})
    with subprocess.Popen(
        ["python3", *command],  # noqa: S607
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        files = folder / ".incoming" / REVISION / "files" / MODEL
        while [one for one in volume.files if not finished(files / one)] != [LARGE]:
            assert running.poll() is None
        with (
            contextlib.suppress(OSError),  # it is full
            (folder / "somebody else's").open("wb", buffering=0) as stream,
        ):
            while stream.write(b"x" * 4096):
                continue
        _, said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert f"refused: {LARGE}: the volume is full" in said
    assert volume.state() is None
    (folder / "somebody else's").unlink()
    assert volume.run(http(server)).returncode == 0
    assert volume.state() == volume.files
