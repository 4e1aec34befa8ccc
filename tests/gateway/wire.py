"""HTTP/1.1 as bytes over TLS: sends anything, and takes nothing but well-formed answers."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from .simulated import LOOPBACK

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([\t -~\x80-\xff]*)")
_NO_BODY = {204, 304}


class MalformedError(AssertionError):
    """What came back is no HTTP/1.1 answer."""


@dataclass(frozen=True)
class Answer:
    """One answer, header names in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def closes(self) -> bool:
        return self.header("connection").lower() == "close"


@dataclass
class Wire:
    """One TLS connection that speaks HTTP/1.1 and trusts whatever certificate is shown."""

    port: int
    timeout: float = 20.0
    _data: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> Wire:
        plain = socket.create_connection((LOOPBACK, self.port), self.timeout)
        # Otherwise the first request waits until the end of the handshake is acknowledged.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = trusting_context("http/1.1").wrap_socket(plain)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it, unless the other side has closed meanwhile; its answer may be there."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self._socket.sendall(data)

    def answers(self) -> Iterator[Answer]:
        """Every answer until the connection is closed."""
        while (answer := self.answer()) is not None:
            yield answer

    def answer(self, *, head: bool = False) -> Answer | None:
        """The next final answer; None when the connection was closed instead.

        Raises:
            MalformedError: it is malformed, or cut.
            TimeoutError: it does not come.
        """
        while True:
            if not self._data and not self._more():
                return None
            status, headers = self._head()
            if status >= 200:
                break
        body = b"" if head or status in _NO_BODY else self._body(dict(headers))
        return Answer(status, headers, body)

    def _head(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        first, *lines = self._until(b"\r\n\r\n").split(b"\r\n")
        matched = _STATUS_LINE.fullmatch(first)
        if not matched:
            raise MalformedError(f"status line {first[:80]!r}")
        headers = []
        for line in lines:
            pair = _HEADER.fullmatch(line)
            if not pair:
                raise MalformedError(f"header {line[:80]!r}")
            headers.append((pair[1].decode().lower(), pair[2].decode("latin-1")))
        return int(matched[1]), tuple(headers)

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(self._chunks())
        if "content-length" not in headers:
            raise MalformedError("an answer without a length")
        return self._exactly(int(headers["content-length"]))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise MalformedError("a chunk longer than it says")
        if self._until(b"\r\n"):
            raise MalformedError("trailers")

    def _until(self, mark: bytes) -> bytes:
        while (end := self._data.find(mark)) < 0:
            if not self._more():
                raise MalformedError(f"cut after {bytes(self._data[:200])!r}")
        taken = bytes(self._data[:end])
        del self._data[: end + len(mark)]
        return taken

    def _exactly(self, length: int) -> bytes:
        while len(self._data) < length:
            if not self._more():
                raise MalformedError(f"cut {length - len(self._data)} bytes before its end")
        taken = bytes(self._data[:length])
        del self._data[:length]
        return taken

    def _more(self) -> bool:
        try:
            data = self._socket.recv(65_536)
        except (ConnectionError, ssl.SSLError):
            return False
        self._data += data
        return bool(data)


@functools.cache
def trusting_context(protocol: str) -> ssl.SSLContext:
    """A client's side of TLS that takes any certificate; one for all, since making it is slow."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def is_error(body: bytes) -> bool:
    """Whether a body has the error shape of the OpenAI API and no more."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        return False
    error = value.get("error") if isinstance(value, dict) and set(value) == {"error"} else None
    return (
        isinstance(error, dict)
        and set(error) == {"message", "type", "param", "code"}
        and isinstance(error["message"], str)
        and isinstance(error["code"], str)
        and error["type"] in {"invalid_request_error", "rate_limit_error", "server_error"}
    )
