"""A real HTTP server on loopback that sends files, and fails as it is told."""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with one answer."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    stall_after: int | None = None
    no_ranges: bool = False
    says_length: int | None = None
    content: bytes | None = None
    chunked: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]


@dataclass
class SourceServer:
    """Files by path, the faults of the next answers by path, and what was asked so far."""

    files: dict[str, bytes]
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    every: Fault | None = None
    asked: list[Asked] = field(default_factory=list)
    bytes_per_second: int | None = None
    etags: bool = True
    at_once: int = 0
    most_at_once: int = 0
    sent: int = 0
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def ranges_of(self, path: str) -> list[str | None]:
        """The Range header of each request for a file, in the order in which they came."""
        return [one.headers.get("Range") for one in self.asked if one.path == f"/{path}"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    source: SourceServer

    def do_GET(self) -> None:
        source, path = self.source, unquote(self.path)
        with source.guard:
            source.asked.append(Asked(path=path, headers=dict(self.headers.items())))
            waiting = source.faults[path[1:]]
            fault = waiting.pop(0) if waiting else source.every or Fault()
        try:
            self._answer(path[1:], fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, path: str, fault: Fault) -> None:
        content = fault.content if fault.content is not None else self.source.files.get(path)
        if fault.status is not None or content is None:
            return self._send(fault.status or 404, fault.headers, b"", Fault())
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = dict(fault.headers)
        if self.source.etags:
            headers.setdefault("ETag", tag)
        start = self._start(fault, headers.get("ETag"))
        if start is None:
            return self._send(200, headers, content, fault)
        if start >= len(content):
            return self._send(416, {"Content-Range": f"bytes */{len(content)}"}, b"", Fault())
        extent = f"bytes {start}-{len(content) - 1}/{len(content)}"
        headers.setdefault("Content-Range", extent)
        return self._send(206, headers, content[start:], fault)

    def _start(self, fault: Fault, tag: str | None) -> int | None:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        expected = self.headers.get("If-Range")
        if found is None or fault.no_ranges or (expected and expected != tag):
            return None
        return int(found[1])

    def _send(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if fault.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            length = len(body) if fault.says_length is None else fault.says_length
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self._body(body[: fault.cut_after if fault.stall_after is None else fault.stall_after])
        if fault.stall_after is not None:
            self.wfile.flush()
            self.source.over.wait(60)
        if fault.cut_after is not None or fault.stall_after is not None or fault.says_length:
            self.close_connection = True

    def _body(self, body: bytes) -> None:
        rate = self.source.bytes_per_second
        step = max(1, rate // 50) if rate else len(body) or 1
        self._count(+1)
        for start in range(0, len(body), step):
            if start + step >= len(body):
                self._count(-1)  # before the last bytes, after which the client may ask again
            self.wfile.write(body[start : start + step])
            self.source.sent += step
            if rate:
                time.sleep(step / rate)

    def _count(self, change: int) -> None:
        with self.source.guard:
            self.source.at_once += change
            self.source.most_at_once = max(self.source.most_at_once, self.source.at_once)

    def log_message(self, *_: object) -> None:
        """Requests are kept, not printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients here are killed in the middle; that is no news."""


@contextmanager
def serving(
    files: dict[str, bytes], context: ssl.SSLContext | None = None
) -> Iterator[SourceServer]:
    """A server of these files until the block ends."""
    source = SourceServer(files=dict(files))
    handler = type("Handler", (_Handler,), {"source": source})
    server = _Server(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if context else "http"
    source.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield source
    finally:
        source.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
