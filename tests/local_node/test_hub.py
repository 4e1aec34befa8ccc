"""The stand-in for a hub: whole files, the rest of one, and nothing beside its folder."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tokenworks.templating import TEMPLATES

Ask = Callable[..., http.client.HTTPResponse]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hub" / "model").mkdir(parents=True)
    (tmp_path / "hub" / "model" / "weights").write_bytes(b"0123456789")
    (tmp_path / "secret").write_text("somebody else's")
    return tmp_path / "hub"


@pytest.fixture
def ask(folder: Path) -> Iterator[Ask]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = str(TEMPLATES / "node" / "hub.py")
    command = [sys.executable, program, "127.0.0.1", str(port), str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def one(path: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers=named)
        return connection.getresponse()

    try:
        _wait_for(port)
        yield one
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "the hub does not listen"
            time.sleep(0.05)
        else:
            return


def test_a_file_comes_whole_with_the_mark_of_its_version(ask: Ask) -> None:
    answer = ask("/model/weights")
    assert (answer.status, answer.read()) == (200, b"0123456789")
    assert (answer.getheader("ETag") or "").startswith('"')


def test_a_download_that_was_cut_goes_on_where_it_ended(ask: Ask) -> None:
    tag = ask("/model/weights").getheader("ETag") or ""
    answer = ask("/model/weights", Range="bytes=4-", If_Range=tag)
    assert (answer.status, answer.read()) == (206, b"456789")
    assert answer.getheader("Content-Range") == "bytes 4-9/10"


def test_who_began_with_another_version_gets_all_of_this_one(ask: Ask, folder: Path) -> None:
    tag = ask("/model/weights").getheader("ETag") or ""
    (folder / "model" / "weights").write_bytes(b"another one")
    answer = ask("/model/weights", Range="bytes=4-", If_Range=tag)
    assert (answer.status, answer.read()) == (200, b"another one")


def test_nothing_is_beyond_the_end(ask: Ask) -> None:
    assert ask("/model/weights", Range="bytes=10-").status == 416


@pytest.mark.parametrize(
    "path", ["/model", "/model/", "/", "/missing", "/../secret", "/%2e%2e/secret"]
)
def test_what_is_no_file_below_the_folder_is_not_there(ask: Ask, path: str) -> None:
    assert ask(path).status == 404
