"""HTTP/1.1 on a socket: strict reading of requests, writing of answers, whole or piece by piece.

Own code because a stream of server-sent events must cost little enough for 5,000 at a time, and
because the faults reach below HTTP: connections that are reset, cut or silent.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

MAX_HEAD_BYTES: Final = 65_536
MAX_BODY_BYTES: Final = 64 * 2**20
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(r"/[!-~]*")
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class BadRequestError(Exception):
    """What came is no HTTP/1.1 request; nothing after it on the connection can be trusted."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived, header names in lower case."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """The first header of a name, or nothing."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(slots=True)
class Parser:
    """Takes bytes as they come, gives requests as they are complete."""

    expecting: Callable[[], None]
    """Called when a client waits to hear that its body is wanted."""
    _data: bytearray = field(default_factory=bytearray)
    _steps: Generator[Request | None, None, None] | None = None

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._data += data

    def next(self) -> Request | None:
        """The next whole request, None while it is not complete.

        Raises:
            BadRequestError: it is malformed, ambiguous or too large.
        """
        if self._steps is None:
            self._steps = self._requests()
        return next(self._steps)

    def _requests(self) -> Generator[Request | None, None, None]:
        while True:
            head = yield from self._until(b"\r\n\r\n", MAX_HEAD_BYTES)
            method, path, headers = read_head(head.decode("latin-1"))
            length = body_length(headers)
            if length and ("expect", "100-continue") in headers:
                self.expecting()
            if length is None:
                body = yield from self._chunks()
            else:
                body = yield from self._exactly(length)
            yield Request(method, path, headers, body)

    def _until(self, mark: bytes, most: int) -> Generator[None, None, bytes]:
        seen = 0
        while (end := self._data.find(mark, seen)) < 0:
            if len(self._data) > most:
                raise BadRequestError("too large")
            seen = max(0, len(self._data) - len(mark) + 1)
            yield
        return self._take(end, len(mark))

    def _exactly(self, length: int) -> Generator[None, None, bytes]:
        if length > MAX_BODY_BYTES:
            raise BadRequestError("too large")
        while len(self._data) < length:
            yield
        return self._take(length, 0)

    def _chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            size = (yield from self._until(b"\r\n", 1024)).partition(b";")[0]
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                raise BadRequestError("bad chunk size")
            if (length := int(size, 16)) == 0:
                break
            body += yield from self._exactly(length)
            if (yield from self._exactly(2)) != b"\r\n" or len(body) > MAX_BODY_BYTES:
                raise BadRequestError("bad chunk")
        while (yield from self._until(b"\r\n", MAX_HEAD_BYTES)):
            pass  # trailers say nothing here
        return bytes(body)

    def _take(self, length: int, mark: int) -> bytes:
        taken = bytes(self._data[:length])
        del self._data[: length + mark]
        return taken


Headers = tuple[tuple[str, str], ...]


def read_head(head: str) -> tuple[str, str, Headers]:
    """Method, path without its query, and headers.

    Raises:
        BadRequestError: a line is malformed; folded lines and spaces before the colon are.
    """
    first, *lines = head.split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not _TOKEN.fullmatch(method):
        raise BadRequestError("bad request line")
    if not _TARGET.fullmatch(target):
        raise BadRequestError("bad target")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or "\n" in value or "\r" in value:
            raise BadRequestError("bad header")
        headers.append((name.lower(), value.strip(" \t")))
    return method, target.partition("?")[0], tuple(headers)


def body_length(headers: Headers) -> int | None:
    """Bytes of the body, or None when it comes in chunks.

    Raises:
        BadRequestError: two lengths, or a length and chunks: what one server takes for a body
            another takes for the next request.
    """
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if codings:
        if codings != ["chunked"] or lengths:
            raise BadRequestError("ambiguous body")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,12}", lengths[0]):
        raise BadRequestError("ambiguous body")
    return int(lengths[0])


_STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\nserver: uvicorn\r\n".encode()
    for each in HTTPStatus
}


class Connection(asyncio.Protocol):
    """One client: its requests one after the other, each answered by ``serve``."""

    def __init__(
        self,
        serve: Callable[[Request, Connection], Coroutine[Any, Any, None] | None],
        members: set[Connection],
        keep_alive_seconds: Callable[[], float],
    ) -> None:
        self._serve, self._members, self._keep_alive = serve, members, keep_alive_seconds
        self._parser = Parser(lambda: self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n"))
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._busy = self._closing = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return not self._busy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (a TCP server's)
        self._transport = transport
        self._members.add(self)
        self._wait_idle()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's signature)
        """End whatever is being answered: nobody listens any more."""
        self._members.discard(self)
        self._stop_idle_timer()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Wait for a slow reader."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Take what came and answer what is complete."""
        self._parser.feed(data)
        if not self._busy:
            self._answer_next()

    def _answer_next(self) -> None:
        while not self._busy and not self._transport.is_closing():
            try:
                request = self._parser.next()
            except BadRequestError:
                self._closing = True
                self.send(400, b"Invalid HTTP request received.", "text/plain; charset=utf-8")
                self._transport.close()
                return
            if request is None:
                return
            self._stop_idle_timer()
            self._busy = True
            self._closing = self._closing or request.header("connection").lower() == "close"
            work = self._serve(request, self)
            if work is None:
                self._finish()
                continue
            self._task = asyncio.get_running_loop().create_task(work)
            self._task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            self.reset()
            raise task.exception() or RuntimeError  # shown by the loop's exception handler
        self._finish()
        if not self._transport.is_closing():
            self._answer_next()

    def _finish(self) -> None:
        self._busy = False
        if self._closing:
            self._transport.close()
        elif not self._transport.is_closing():
            self._wait_idle()

    def _wait_idle(self) -> None:
        seconds = self._keep_alive()
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self.close)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def send(
        self, status: int, body: bytes, content_type: str = "application/json", extra: bytes = b""
    ) -> None:
        """A whole answer."""
        head = f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n".encode()
        self._transport.write(b"".join((_STATUS_LINES[status], extra, head, b"\r\n", body)))

    def begin(self, content_type: str) -> None:
        """The head of an answer that comes piece by piece."""
        head = f"content-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        self._transport.write(_STATUS_LINES[200] + head)

    async def piece(self, data: bytes) -> None:
        """One more piece, sent at once; waits while the client reads too slowly."""
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if not self._writable.is_set():
            await self._writable.wait()

    def end(self) -> None:
        """The end of an answer that came piece by piece."""
        self._transport.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Reset the connection (TCP RST), losing what was not read yet."""
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def send_half(self, body: bytes) -> None:
        """The head of a whole answer and half of its body."""
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        self._transport.write(_STATUS_LINES[200] + head + body[: len(body) // 2])

    def cut(self) -> None:
        """Close in the middle of an answer, as a dying process does; what was written arrives."""
        self._transport.close()

    def close(self) -> None:
        """Close once what is being answered is finished."""
        self._closing = True
        if not self._busy:
            self._transport.close()
