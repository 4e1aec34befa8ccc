"""The wire between the node's network and the host's passes on what it is told to, and no more."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tokenworks.templating import TEMPLATES


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that answers each connection with what it was sent, in capitals."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(connection.makefile("rb").read().upper())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def wire(tmp_path: Path, echo: int) -> Iterator[tuple[int, int, Path]]:
    """A wire within one network: the port that leads inward, the one outward, and the proxy."""
    outward, proxy = free_port(), tmp_path / "proxy.sock"
    with ExitStack() as stack:
        gateway = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        asked = stack.enter_context(socket.socket(socket.AF_UNIX))
        asked.bind(str(proxy))
        asked.listen()
        network = stack.enter_context(Path("/proc/self/ns/net").open("rb"))
        spec = {
            "host_network": network.fileno(),
            "inward": [[gateway.fileno(), ["127.0.0.1", echo]]],
            "outward": [[["127.0.0.1", outward], ["127.0.0.1", echo]]],
            "proxy": asked.fileno(),
            "on_host": [],
        }
        (tmp_path / "wire.json").write_text(json.dumps(spec))
        running = subprocess.Popen(
            [sys.executable, str(TEMPLATES / "node" / "wire.py"), str(tmp_path / "wire.json")],
            pass_fds=(network.fileno(), gateway.fileno(), asked.fileno()),
        )
        try:
            yield gateway.getsockname()[1], outward, proxy
        finally:
            running.kill()
            running.wait()


def said(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    connection.shutdown(socket.SHUT_WR)
    return connection.makefile("rb").read()


def test_a_connection_of_the_host_reaches_the_node(wire: tuple[int, int, Path]) -> None:
    with socket.create_connection(("127.0.0.1", wire[0]), timeout=20) as connection:
        assert said(connection, b"in" * 200_000) == b"IN" * 200_000


def test_the_proxy_opens_what_connect_asks_for(wire: tuple[int, int, Path], echo: int) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(wire[2]))
        head = f"CONNECT 127.0.0.1:{echo} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        assert said(connection, head + b"through") == b"HTTP/1.1 200 OK\r\n\r\nTHROUGH"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT some.name:80 HTTP/1.1\r\n\r\n",
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
    ],
)
def test_the_proxy_refuses_everything_else(wire: tuple[int, int, Path], head: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(wire[2]))
        assert said(connection, head).startswith(b"HTTP/1.1 502 ")
