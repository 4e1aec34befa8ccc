"""The PROXY protocol before callers' connections, where a load balancer sends it."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest

from .engine import SimulatedEngine
from .harness import KEY, Gateway, engines_of, plan_for, running, until
from .simulated import CHAT, LOOPBACK

pytestmark = pytest.mark.envoy

CALLER = "203.0.113.7"
"""An address for documentation, RFC 5737; nothing on this machine has it."""

VERSION_1 = f"PROXY TCP4 {CALLER} 198.51.100.1 50000 443\r\n".encode()
_ADDRESSES = socket.inet_aton(CALLER) + socket.inet_aton("198.51.100.1")
VERSION_2 = b"\r\n\r\n\0\r\nQUIT\n" + struct.pack(
    ">BBH8sHH", 0x21, 0x11, 12, _ADDRESSES, 50000, 443
)
BEFORE = pytest.mark.parametrize("before", [VERSION_1, VERSION_2], ids=["text", "binary"])


@pytest.fixture(scope="module")
def behind(engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    plan = plan_for([engines_of("alpha", engine.port)], proxy_protocol=True)
    with running(tmp_path_factory.mktemp("proxy"), plan) as gateway:
        yield gateway


def answer(gateway: Gateway, before: bytes) -> bytes:
    """What comes back for one request on a connection that begins so; empty if it was closed."""
    body = json.dumps({"model": "alpha"}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    context = ssl.create_default_context(cadata=gateway.chain)
    try:
        with socket.create_connection((LOOPBACK, gateway.plan.tls_port), 10) as plain:
            plain.sendall(before)
            with context.wrap_socket(plain, server_hostname=LOOPBACK) as connection:
                connection.sendall(f"{head}connection: close\r\n\r\n".encode() + body)
                return b"".join(iter(lambda: connection.recv(65_536), b""))
    except (ConnectionError, ssl.SSLError):
        return b""


@BEFORE
def test_the_caller_s_address_is_logged_and_passed_on(
    behind: Gateway, engine: SimulatedEngine, before: bytes
) -> None:
    engine.received.clear()
    lines = len(behind.access_log())
    assert answer(behind, before).startswith(b"HTTP/1.1 200 ")
    assert engine.received[0].headers["x-forwarded-for"] == CALLER
    until(lambda: len(behind.access_log()) > lines, what="the log")
    assert behind.access_log()[-1]["client"] == CALLER


def test_a_connection_that_does_not_begin_so_is_closed(
    behind: Gateway, engine: SimulatedEngine
) -> None:
    engine.received.clear()
    assert answer(behind, b"") == b""
    assert answer(behind, b"PROXY TCP4 nobody nowhere 1 2\r\n") == b""
    assert engine.received == []


def test_probes_are_asked_as_before(behind: Gateway) -> None:
    """A load balancer that checks that port sends nothing ahead of its request."""
    assert behind.plain("GET", "/ready").status == 200
    with contextlib.closing(
        socket.create_connection((LOOPBACK, behind.plan.readiness_port), 10)
    ) as connection:
        connection.sendall(VERSION_1 + b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(100).split(b" ")[1] == b"400"


@BEFORE
def test_without_the_setting_no_caller_can_choose_its_address(
    gateway: Gateway, engine: SimulatedEngine, before: bytes
) -> None:
    assert answer(gateway, before) == b""
    assert answer(gateway, b"").startswith(b"HTTP/1.1 200 ")
    assert CALLER not in engine.received[-1].headers["x-forwarded-for"]
