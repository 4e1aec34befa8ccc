"""A simulated engine inside the test's own process, on real sockets, and a client for it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tokenworks.gateway.simulated_engine.engine import Engine
from tokenworks.gateway.simulated_engine.server import EngineServer
from tokenworks.gateway.simulated_engine.settings import Settings

LOOPBACK = "127.0.0.1"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=4)

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """A whole answer, header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of every server-sent event; ``[DONE]`` stays text."""
        texts = [part.strip()[len("data: ") :] for part in self.body.decode().split("\n\n")[:-1]]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]


@dataclass
class Running:
    """An engine that listens, and its two ports."""

    server: EngineServer
    loop: asyncio.AbstractEventLoop
    port: int
    control: int

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection(LOOPBACK, port or self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            head = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, head, response.read())

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {"content-type": "application/json"})

    def chat(self, text: str = "hi", **fields: Any) -> Reply:
        messages = [{"role": "user", "content": text}]
        return self.post(CHAT, {"model": "m", "messages": messages, **fields})

    def settings(self, **changes: Any) -> Reply:
        return self.request("PATCH", "/settings", json.dumps(changes).encode(), port=self.control)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.request("GET", "/state", port=self.control).json
        return state

    def requests(self) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = self.request("GET", "/requests", port=self.control).json
        return seen

    def metric(self, name: str) -> float:
        lines = self.request("GET", "/prometheus/metrics").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


@contextlib.contextmanager
def engine(
    settings: Settings = QUICK, name: str = "m-0", tls: ssl.SSLContext | None = None
) -> Iterator[Running]:
    """A running engine of model ``m``, ended with the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = EngineServer(Engine.of(name, "m", settings))
    listening = server.listen(LOOPBACK, 0, LOOPBACK, 0, tls)
    asyncio.run_coroutine_threadsafe(listening, loop).result(10)
    running = Running(server, loop, *server.ports)
    try:
        yield running
    finally:
        running.run(server.abandon())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
