"""A managed API on loopback: TLS, a path and a model name of its own, and a key."""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from .engine import Received
from .harness import certificate
from .simulated import LOOPBACK

API_KEY = "sk-of-the-managed-api"


@dataclass
class ManagedService:
    """Records what reaches it and answers with the name of the model that was asked for."""

    folder: Path
    received: list[Received] = field(default_factory=list)

    def __enter__(self) -> ManagedService:
        secret = certificate("localhost")
        self.chain = secret["tls.crt"]
        for name, text in secret.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self.received))
        self.port = self._server.server_address[1]
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _handler(received: list[Received]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.append(Received("POST", self.path, headers, body))
            text = json.dumps({"model": json.loads(body)["model"]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Keep the test's output to itself."""

    return Handler
