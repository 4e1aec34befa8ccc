"""HTTP/1.1 as the simulated engine reads and keeps it, and the engine as a program."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.gateway.simulated_engine.__main__ import main
from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.gateway.simulated_engine.wire import BadRequestError, Parser, Request

from .simulated import CHAT, LOOPBACK, Running, engine

JSON = "application/json"


@pytest.fixture
def running() -> Iterator[Running]:
    with engine() as it:
        yield it


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def parse(*pieces: bytes) -> list[Request]:
    parser, found = Parser(lambda: None), []
    for piece in pieces:
        parser.feed(piece)
        while (request := parser.next()) is not None:
            found.append(request)
    return found


CHUNKED = (
    b"POST /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
)
PLAIN = b"POST /c HTTP/1.1\r\nContent-Length: 2\r\nHost: x\r\n\r\nhi"


@given(st.lists(st.integers(0, len(CHUNKED + PLAIN)), max_size=6))
def test_requests_are_the_same_however_their_bytes_arrive(cuts: list[int]) -> None:
    text, places = CHUNKED + PLAIN, sorted({0, *cuts, len(CHUNKED + PLAIN)})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    first, second = parse(*pieces)
    assert (first.path, first.body) == ("/a", b"abcde")
    assert (second.path, second.body, second.header("host")) == ("/c", b"hi", "x")


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"POST http://x/ HTTP/1.1\r\n\r\n",
        b"POST / HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_two_servers_could_read_differently_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse(head)


def test_a_malformed_request_is_answered_and_its_connection_closed(running: Running) -> None:
    with socket.create_connection((LOOPBACK, running.port)) as raw:
        raw.sendall(b"nonsense\r\n\r\n" + PLAIN)
        said = everything(raw)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1") == 1
    assert running.requests() == []


def test_several_requests_in_one_packet_are_answered_in_order(running: Running) -> None:
    with socket.create_connection((LOOPBACK, running.port)) as raw:
        raw.sendall(b"GET /version HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\nConnection: close\r\n\r\n")
        said = everything(raw)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200", b"404"]


def test_idle_connections_are_closed_after_the_engines_time() -> None:
    with contextlib.ExitStack() as stack:
        it = stack.enter_context(engine(Settings(keep_alive_seconds=0.05)))
        raw = stack.enter_context(socket.create_connection((LOOPBACK, it.port), timeout=5))
        assert raw.recv(1) == b""


# --- As a program --------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-m", "tokenworks.gateway.simulated_engine", "--model", "m"]


def test_a_stopped_engine_finishes_what_it_answers() -> None:
    options = ["--port", "0", "--inter-token-seconds", "0.1", "--output-tokens", "5"]
    process = subprocess.Popen([*PROGRAM, *options], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
        body = json.dumps({"model": "m", "messages": [], "stream": True})
        connection.request("POST", CHAT, body, {"content-type": JSON})
        response = connection.getresponse()
        response.readline()
        process.send_signal(signal.SIGTERM)
        assert response.read().endswith(b"data: [DONE]\n\n")
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--model", "m", "--fault", "flood"])
    assert caught.value.code == 2
    assert "fault: 'flood' is none of" in capsys.readouterr().err


def test_a_taken_port_is_named(running: Running) -> None:
    taken = ["--port", str(running.port)]
    done = subprocess.run([*PROGRAM, *taken], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{LOOPBACK}:{running.port}" in done.stderr
    assert "give a free port" in done.stderr


def test_hundreds_of_streams_are_held_together() -> None:
    settings = Settings(first_token_seconds=0.5, output_tokens=2, max_batch_size=1000)
    with engine(settings) as it:
        body = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
        head = f"POST {CHAT} HTTP/1.1\r\ncontent-type: {JSON}\r\nconnection: close\r\n"
        whole = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        sockets = [socket.create_connection((LOOPBACK, it.port), timeout=20) for _ in range(400)]
        for each in sockets:
            each.sendall(whole)
        ends = [everything(each)[-5:] for each in sockets]
        for each in sockets:
            each.close()
    assert ends == [b"0\r\n\r\n"] * len(sockets)
