"""HTTP/2 frames that are in doubt, and what becomes of the stream that carries them."""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from random import Random
from types import TracebackType

from .fuzz_bodies import right
from .fuzz_requests import KEYS, Case
from .simulated import CHAT, LOOPBACK
from .wire import trusting_context

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE = 2.0
"""Seconds for what must come at once; whatever does not come is no answer, which is no failure."""

Fields = list[tuple[bytes, bytes]]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
    return head + payload


def _length(size: int) -> bytes:
    """An integer with a prefix of seven bits (RFC 7541, section 5.1), text uncompressed."""
    if size < 127:
        return bytes([size])
    size -= 127
    octets = bytearray([127])
    while size >= 128:
        octets.append(size % 128 + 128)
        size //= 128
    return bytes([*octets, size])


def block(fields: Fields) -> bytes:
    """Headers that are neither indexed nor compressed."""
    return b"".join(
        b"\0" + _length(len(name)) + name + _length(len(value)) + value for name, value in fields
    )


@dataclass
class Verdict:
    """What became of stream 1: a body, a reset, or the end of the connection."""

    body: bytes = b""
    ok: bool = False
    """Its status was 200, which HPACK's static table writes in one byte."""
    reset: bool = False
    gone: bool = False
    waits: bool = False
    """The ping was swallowed by a frame that is not complete."""


class Connection:
    """One HTTP/2 connection that offers one case."""

    def __init__(self, port: int) -> None:
        plain = socket.create_connection((LOOPBACK, port), PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = trusting_context("h2").wrap_socket(plain)
        self._frames = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._frames.close()
        self._socket.close()

    def offer(self, data: bytes) -> Verdict:
        """Send frames and a ping; read until the stream has ended, was reset, or all is gone.

        The ping's answer alone does not end the reading of a stream that has begun to be answered.
        """
        verdict = Verdict()
        try:
            self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + data)
            self._socket.sendall(frame(PING, 0, 0, b"whatever"))
            self._read(verdict)
        except (ConnectionError, ssl.SSLError):
            verdict.gone = True
        except TimeoutError:
            verdict.waits = True
        return verdict

    def _read(self, verdict: Verdict) -> None:
        answered = ponged = False
        while not (ponged and (answered or self._quiet())):
            head = self._frames.read(9)
            if len(head) < 9 or head[3] == GOAWAY:
                verdict.gone = True
                return
            payload = self._frames.read(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            ponged = ponged or (kind == PING and bool(flags & ACK))
            if stream == 1:
                verdict.ok = verdict.ok or (kind == HEADERS and payload[:1] == b"\x88")
                verdict.body += payload if kind == DATA else b""
                verdict.reset = verdict.reset or kind == RESET
                answered = bool(flags & END_STREAM and kind != RESET) or kind == RESET

    def _quiet(self) -> bool:
        """Whether nothing comes for a while: the stream waits for more, and rightly so."""
        self._socket.settimeout(0.1)
        try:
            return not self._frames.peek(1)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(PATIENCE)


def _fields(key: str | None) -> Fields:
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"gateway"),
        (b":path", CHAT.encode()),
        (b"content-type", b"application/json"),
    ]
    return [*fields, *([(b"authorization", f"Bearer {key}".encode())] if key else [])]


_ODD_FIELDS: Fields = [
    (b"x-tenant-id", b"support"),
    (b"x-llm-admitted", b"1"),
    (b"x-llm-model", b"alpha"),
    (b"X-Tenant-Id", b"support"),
    (b"transfer-encoding", b"chunked"),
    (b"connection", b"x-tenant-id"),
    (b"content-length", b"3"),
    (b"content-length", b"-1"),
    (b"te", b"gzip"),
    (b"upgrade", b"h2c"),
    (b":path", b"/release_memory"),
    (b":method", b"GET"),
    (b":authority", b"engine"),
    (b":unknown", b"1"),
    (b":protocol", b"websocket"),
    (b":status", b"200"),
    (b"host", b"engine"),
    (b"x-a", b"b\r\nx-tenant-id: support"),
    (b"x-a", b"b\0c"),
    (b"x-a\r\n", b"1"),
    (b"x a", b"1"),
    (b"", b"1"),
    (b"x-large", b"a" * 70_000),
    (b"cookie", b"a=b"),
    (b"x-a", b"\xff\xfe"),
]
_ODD_PATHS = (
    *(b"", b"*", b"/release_memory", b"//release_memory", b"http://engine/release_memory"),
    *(CHAT.encode() + b"/../../../release_memory", b"/v1/chat%2fcompletions", b"/\r\nx: y", b"a b"),
    *(CHAT.encode() + b" HTTP/1.1\r\nx-tenant-id: support", b"/v1\\chat\\completions", b"/\0"),
)


def _odd_headers(fields: Fields, random: Random) -> Fields:
    """Fields changed, repeated, missing, added, or in another order."""
    changed = list(fields)
    match random.randrange(5):
        case 0:
            del changed[random.randrange(4)]
        case 1:
            changed[3] = (b":path", random.choice(_ODD_PATHS))
        case 2:
            changed[0] = (
                b":method",
                random.choice([b"", b"CONNECT", b"PO ST", b"post", b"POST\r\n"]),
            )
        case 3:
            random.shuffle(changed)
        case _:
            pass
    for _ in range(random.randint(0, 2)):
        changed.insert(random.randint(0, len(changed)), random.choice(_ODD_FIELDS))
    return changed


def _headers(fields: Fields, flags: int, random: Random) -> bytes:
    """The header block in one frame or several; too much for one frame always in several."""
    data = block(fields)
    size = random.choice([16_000, 16_000, 5])
    parts = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
    if len(parts) > 200:
        parts = [data[start : start + 16_000] for start in range(0, len(data), 16_000)]
    last = len(parts) - 1
    return b"".join(
        frame(
            CONTINUATION if index else HEADERS,
            (END_HEADERS if index == last else 0) | (0 if index else flags),
            1,
            part,
        )
        for index, part in enumerate(parts)
    )


def _odd_frames(random: Random) -> bytes:
    """A frame that has no business there."""
    return random.choice(
        [
            frame(DATA, END_STREAM, 3, b"never opened"),
            frame(DATA, PADDED, 1, b"\xff"),
            frame(HEADERS, END_HEADERS, 0, b""),
            frame(HEADERS, END_HEADERS, 2, b""),
            frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, b"\0\0\0\x01\0"),
            frame(CONTINUATION, END_HEADERS, 1, b""),
            frame(PRIORITY, 0, 1, b"\0\0\0\x01\0"),
            frame(RESET, 0, 1, b"\0\0\0\x08"),
            frame(RESET, 0, 1, b"") * 3,
            frame(SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff"),
            frame(SETTINGS, 0, 0, b"\0\x01\0\0\0\0") * 20,
            frame(SETTINGS, ACK, 0, b"x"),
            frame(PUSH, END_HEADERS, 1, b"\0\0\0\x02"),
            frame(PING, 0, 0, b"short"),
            frame(WINDOW, 0, 1, b"\0\0\0\0"),
            frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2,
            frame(GOAWAY, 0, 0, b"\0" * 8),
            frame(250, 255, 1, b"unknown"),
            b"\xff\xff\xff" + frame(DATA, 0, 1, b"")[3:],
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
            random.randbytes(30),
        ]
    )


def http2_case(number: int, random: Random) -> Case:
    key = random.choice(["none", "wrong", "right", "right"])
    fields, body = _fields(KEYS[key]), right(random)
    odd = random.randrange(4)
    if odd != 0:
        fields = _odd_headers(fields, random)
    parts = [_headers(fields, 0, random)]
    half = random.randrange(len(body))
    parts += [frame(DATA, 0, 1, body[:half]), frame(DATA, END_STREAM, 1, body[half:])]
    if odd in (0, 1):
        parts.insert(random.randint(0, len(parts)), _odd_frames(random))
    return Case("http2", number, b"".join(parts), key, key == "right")
