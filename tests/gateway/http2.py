"""The smallest HTTP/2 client that can prove something: one request on one connection."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS = 1, 4


@dataclass
class Answer:
    """The frames of one answer; ``status`` is 0 unless it is the 200 of HPACK's static table."""

    status: int = 0
    data: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header that is neither indexed nor compressed (RFC 7541, section 6.2.2)."""
    assert max(len(name), len(value)) < 127
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def _connect(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10))
    assert connection.selected_alpn_protocol() == "h2"
    return connection


def http2_request(
    port: int, path: str, headers: Mapping[str, str], body: bytes, *, method: str = "POST"
) -> Answer:
    """Send a JSON body in a frame of its own, and read until the stream ends."""
    pseudo = {":method": method, ":scheme": "https", ":authority": "gateway", ":path": path}
    fields = {**pseudo, "content-type": "application/json", **headers}
    block = b"".join(_literal(name, value) for name, value in fields.items())
    with _connect(port) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, b""))
        connection.sendall(_frame(HEADERS, END_HEADERS, 1, block))
        time.sleep(0.05)
        connection.sendall(_frame(DATA, END_STREAM, 1, body))
        return _read(connection)


def _read(connection: ssl.SSLSocket) -> Answer:
    answer = Answer()
    with connection.makefile("rb") as frames:
        while head := frames.read(9):
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            payload = frames.read(int.from_bytes(head[:3], "big"))
            if stream != 1:
                continue
            assert kind != RST_STREAM, "reset before the answer was whole"
            if kind == HEADERS:
                answer.status = 200 if payload[0] == 0x88 else 0
            elif payload:
                answer.data.append(payload)
                answer.times.append(time.monotonic())
            if flags & END_STREAM:
                break
    return answer
