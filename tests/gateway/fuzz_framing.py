"""Requests whose length is in doubt, and the second request that each would smuggle."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .fuzz_bodies import right
from .fuzz_requests import HIDDEN, KEYS, Case, request
from .simulated import CHAT

Framed = tuple[bytes, bool]
"""The bytes, and whether an answer must come."""

_HIDDEN_LINES = (
    b"POST /release_memory HTTP/1.1",
    b"POST /update_weights HTTP/1.1",
    b"POST " + CHAT.encode() + b" HTTP/1.1",
    b"GET /server_info HTTP/1.1",
)


def hidden(random: Random) -> bytes:
    """What a second reader would take for a request of the gateway itself."""
    spoofed = (b"x-tenant-id: support", b"x-llm-admitted: 1", b"x-llm-model: alpha")
    body = b'{"model": "alpha", "' + HIDDEN.encode() + b'": 1}'
    return request(None, body, line=random.choice(_HIDDEN_LINES), extra=spoofed)


def _head(key: str | None, *lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    authorization = [f"authorization: Bearer {key}".encode()] if key else []
    first = b"POST " + CHAT.encode() + b" " + version
    common = [b"host: gateway", b"content-type: application/json"]
    return b"\r\n".join([first, *common, *authorization, *lines, b"", b""])


def _chunked(body: bytes, random: Random) -> bytes:
    pieces, left = [], body
    while left:
        size = random.randint(1, len(left))
        pieces.append(b"%x\r\n%b\r\n" % (size, left[:size]))
        left = left[size:]
    return b"".join(pieces)


def _two_lengths(key: str | None, random: Random) -> Framed:
    body, more = right(random), hidden(random)
    chunked = b"0\r\n\r\n" + more
    lengths = random.choice(
        [
            (b"content-length: %d" % len(body), b"transfer-encoding: chunked"),
            (b"transfer-encoding: chunked", b"content-length: %d" % len(chunked)),
            (b"content-length: %d" % len(body), b"content-length: %d" % (len(body) + len(more))),
            (b"content-length: %d, %d" % (len(body), len(body) + len(more)),),
            (b"content-length: %d" % len(body), b"content-length: %d" % len(body)),
        ]
    )
    return _head(key, *lengths) + random.choice([body + more, chunked]), True


def _odd_length(key: str | None, random: Random) -> Framed:
    body = right(random)
    length = random.choice(
        [b"+%d", b"-%d", b"0x%x", b"%d.0", b"%d ", b"\t%d", b"%d\x0b", b"'%d'", b"%d%%", b"00%d"]
    )
    odd = length.replace(b"%%", b"%%") % len(body)
    return _head(key, b"content-length: " + odd) + body + hidden(random), True


_CODINGS = (
    *(
        b"xchunked",
        b"chunked, identity",
        b"identity, chunked",
        b"gzip, chunked",
        b"chunked, chunked",
    ),
    *(b"\x0bchunked", b"chunked\0", b"'chunked'", b"chunked;q=1", b"identity", b"gzip", b""),
    *(b" chunked", b"CHUNKED", b"chunked\t", b"\x00chunked", b"chu\xc3nked"),
)


def _odd_coding(key: str | None, random: Random) -> Framed:
    name = random.choice([b"transfer-encoding", b"Transfer-Encoding", b"transfer_encoding"])
    line = name + random.choice([b": ", b":", b" : ", b":\r\n ", b":\t"]) + random.choice(_CODINGS)
    body = _chunked(right(random), random) + b"0\r\n\r\n" + hidden(random)
    length = [] if random.random() < 0.7 else [b"content-length: 4"]
    return _head(key, line, *length) + body, True


_SIZES = (
    *(b"0x%x", b"+%x", b"-%x", b"%x ", b" %x", b"%x;ext=1", b'%x;ext="\r\n"', b"%x\n", b"%xg"),
    *(b"%x\0", b"00000000000000000%x", b"1%016x", b"", b"ffffffffffffffff%x", b"%x;", b"_%x"),
)


def _odd_chunks(key: str | None, random: Random) -> Framed:
    body = right(random)
    size = random.choice(_SIZES)
    size = size % len(body) if b"%" in size else size
    end = random.choice([b"\r\n", b"\n", b"\r", b"\r\r\n", b"xx"])
    data = size + b"\r\n" + body + end + b"0\r\n\r\n"
    # A size that may be right but too large is waited for.
    return _head(key, b"transfer-encoding: chunked") + data + hidden(random), b"f" * 9 not in size


def _trailers(key: str | None, random: Random) -> Framed:
    trailers = random.choice(
        [
            b"x-tenant-id: support\r\n",
            b"authorization: Bearer x\r\ncontent-length: 5\r\n",
            b"x-llm-admitted: 1\r\ntransfer-encoding: chunked\r\n",
            b"bad trailer\r\n",
            b"x: " + b"a" * 70_000 + b"\r\n",
            b"x-many: 1\r\n" * 200,
        ]
    )
    body = _chunked(right(random), random)
    return _head(key, b"transfer-encoding: chunked") + body + b"0\r\n" + trailers + b"\r\n", True


def _versions(key: str | None, random: Random) -> Framed:
    version = random.choice(
        [
            b"HTTP/1.0",
            b"HTTP/0.9",
            b"HTTP/1.2",
            b"HTTP/2.0",
            b"http/1.1",
            b"HTTP/1.1 x",
            b"",
            b"RTSP/1",
        ]
    )
    body = right(random)
    return _head(key, b"content-length: %d" % len(body), version=version) + body, True


def _line_ends(key: str | None, random: Random) -> Framed:
    """A line feed alone may end a line (RFC 9112, section 2.2), and so the head sooner."""
    line = random.choice(
        [
            b"x-a: 1\n",
            b"x-a: 1\n\n",
            b"x-a: 1\nx-tenant-id: support",
            b"x-a: 1\r2",
            b"\r: 1",
            b"x: 1\r",
        ]
    )
    return request(key, right(random), extra=(line,)), True


def _pipelined(key: str | None, random: Random) -> Framed:
    """Right requests one after the other without waiting, the second by nobody."""
    return request(key, right(random)) + hidden(random), True


def _unfinished(key: str | None, random: Random) -> Framed:
    """Less than what was announced: nothing to answer yet."""
    whole = request(key, right(random))
    return whole[: random.randint(1, len(whole) - 1)], False


def _other_protocols(key: str | None, random: Random) -> Framed:
    data = random.choice(
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(random.randbytes(40)),
            b"\x16\x03\x01\x02\x00" + random.randbytes(60),
            b"GET / HTTP/1.1\n\nGET /release_memory HTTP/1.1\n\n",
            b"\r\n\r\n\r\n" + request(key, right(random)),
            b"SSH-2.0-x\r\n\r\n",
            b"EHLO x\r\n\r\n",
            b"CONNECT engine:8000 HTTP/1.1\r\nhost: engine:8000\r\n\r\n" + hidden(random),
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + request(key, right(random)),
            b"*1\r\n$4\r\nPING\r\n\r\n",
        ]
    )
    return data, True


_MAKERS: tuple[Callable[[str | None, Random], Framed], ...] = (
    *(_two_lengths, _odd_length, _odd_coding, _odd_chunks, _trailers),
    *(_versions, _line_ends, _pipelined, _unfinished, _other_protocols),
)


def framing_case(number: int, random: Random) -> Case:
    key = random.choice(["none", "wrong", "right", "right"])
    data, complete = random.choice(_MAKERS)(KEYS[key], random)
    return Case("framing", number, data, key, key == "right", complete=complete)
