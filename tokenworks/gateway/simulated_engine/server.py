"""The two doors of a simulated engine: trtllm-serve's routes, and the control port beside them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from . import answers
from .engine import Engine
from .generation import generate, probe
from .requests import CHAT, COMPLETIONS, InvalidRequestError, read_job
from .wire import Connection, Request

VERSION: Final = "1.2.1"
"""What ``/version`` says: the release whose surface this is."""
TEXT: Final = "text/plain; charset=utf-8"
RESPONSES: Final = "/v1/responses"
METRICS: Final = "/prometheus/metrics"

ADMIN_ROUTES: Final[tuple[tuple[str, str], ...]] = (
    ("POST", "/release_memory"),
    ("POST", "/resume_memory"),
    ("POST", "/update_weights"),
    ("POST", "/kv_cache_events"),
    ("POST", "/v1/kv_cache_hints"),
    ("POST", "/start_profile"),
    ("POST", "/stop_profile"),
    ("POST", "/steady_clock_offset"),
    ("GET", "/steady_clock_offset"),
    ("GET", "/perf_metrics"),
    ("GET", "/energy_metrics"),
    ("GET", "/server_info"),
    ("GET", "/metrics"),
)
"""What nobody but the operator of an engine should reach, and what has no key of its own."""
OPEN_ROUTES: Final[tuple[tuple[str, str], ...]] = (
    ("GET", "/health"),
    ("GET", "/health_generate"),
    ("GET", "/version"),
    ("GET", "/v1/models"),
    ("GET", METRICS),
    ("POST", CHAT),
    ("POST", COMPLETIONS),
    ("POST", RESPONSES),
)
ROUTES: Final = (*OPEN_ROUTES, *ADMIN_ROUTES)
_METHODS: Final = {path: {m for m, p in ROUTES if p == path} for _, path in ROUTES}

Work = Coroutine[Any, Any, None] | None


class EngineServer:
    """An engine that listens: its own routes on one address, control on another."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(
        self,
        host: str,
        port: int,
        control_host: str,
        control_port: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Open both doors; with ``tls`` the engine's own speaks TLS, as a managed API's does.

        Raises:
            OSError: an address is taken or not this machine's.
        """
        self._servers.append(await self._open(self._serve, host, port, tls))
        self._servers.append(await self._open(self._control, control_host, control_port, None))

    @property
    def ports(self) -> tuple[int, int]:
        """The engine's and the control port, also where 0 was asked for."""
        engine, control = (each.sockets[0].getsockname()[1] for each in self._servers)
        return engine, control

    async def drain(self) -> None:
        """Accept nobody any more, and wait until every running answer is given."""
        for server in self._servers:
            server.close()
        while self._connections:
            for connection in tuple(self._connections):
                connection.close()
            await asyncio.sleep(0.02)

    async def abandon(self) -> None:
        """Stop at once, resetting whoever is connected."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.reset()
        while self._connections:
            await asyncio.sleep(0)

    async def _open(
        self,
        serve: Callable[[Request, Connection], Work],
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
    ) -> asyncio.Server:
        def connection() -> Connection:
            return Connection(
                serve, self._connections, lambda: self.engine.settings.keep_alive_seconds
            )

        # Thousands of clients may connect in one moment.
        return await asyncio.get_running_loop().create_server(
            connection, host, port, backlog=4096, ssl=tls
        )

    def _serve(self, request: Request, connection: Connection) -> Work:
        self.engine.record(request)
        methods = _METHODS.get(request.path)
        if methods is None:
            return self._unlisted(request, connection)
        if request.method not in methods:
            allow = f"allow: {', '.join(sorted(methods))}\r\n".encode()
            connection.send(405, b'{"detail":"Method Not Allowed"}', extra=allow)
            return None
        if request.path in (CHAT, COMPLETIONS):
            return self._generate(request, connection)
        if request.path == "/health_generate":
            return self._probe(connection)
        status, body, kind = self._answer(request)
        connection.send(status, body, kind)
        return None

    def _unlisted(self, request: Request, connection: Connection) -> Work:
        if request.path.startswith(f"{RESPONSES}/") and request.method in ("GET", "DELETE"):
            text = f"Response with id '{request.path.rsplit('/', 1)[1]}' not found."
            connection.send(404, answers.error(text, "InvalidRequestError", 404))
        elif request.path.startswith(METRICS):
            connection.send(200, self.engine.exposition(), "text/plain; version=0.0.4")
        else:
            connection.send(404, b'{"detail":"Not Found"}')
        return None

    def _generate(self, request: Request, connection: Connection) -> Work:
        try:
            job = read_job(request.path, request.header("content-type"), request.body)
        except InvalidRequestError as error:
            connection.send(400, answers.invalid(str(error)))
            return None
        return generate(self.engine, job, connection)

    async def _probe(self, connection: Connection) -> None:
        status, text = await probe(self.engine)
        connection.send(status, text, TEXT)

    def _answer(self, request: Request) -> tuple[int, bytes, str]:
        engine, path = self.engine, request.path
        if path == "/health":
            if engine.settings.healthy:
                return 200, b"", TEXT
            text = "LLM is unavailable. Please check the server logs for more details."
            return 503, text.encode(), TEXT
        if path == METRICS:
            return 200, engine.exposition(), "text/plain; version=0.0.4; charset=utf-8"
        bodies: Mapping[str, Callable[[], bytes]] = {
            "/version": lambda: json.dumps({"version": VERSION}).encode(),
            "/v1/models": lambda: answers.models(engine.model),
            "/metrics": self._iteration_statistics,
            RESPONSES: self._response,
        }
        if path in bodies:
            return 200, bodies[path](), "application/json"
        return 200, self._administer(request), "application/json"

    def _administer(self, request: Request) -> bytes:
        """An admin route does what it says to whoever asks: there is no key."""
        engine = self.engine
        engine.admin_calls.append(f"{request.method} {request.path}")
        if request.path == "/release_memory":
            engine.memory_released = True
            engine.cache.forget()
        elif request.path == "/resume_memory":
            engine.memory_released = False
        elif request.path == "/update_weights":
            engine.cache.forget()
        return b"[]" if request.path in ("/kv_cache_events", "/perf_metrics") else b"{}"

    def _iteration_statistics(self) -> bytes:
        """Statistics since the last look; reading drains them."""
        count, self.engine.iterations = self.engine.iterations, 0
        now = {
            "numActiveRequests": self.engine.slots.running,
            "numQueuedRequests": len(self.engine.slots.waiting),
        }
        return json.dumps([{"iter": index, **now} for index in range(count)]).encode()

    def _response(self) -> bytes:
        self.engine.numbered += 1
        text = {"type": "output_text", "text": f"{self.engine.name}: no weights", "annotations": []}
        message = {"type": "message", "role": "assistant", "content": [text], "status": "completed"}
        body = {"id": f"resp_{self.engine.numbered}", "object": "response", "created_at": 0}
        return json.dumps({**body, "status": "completed", "output": [message]}).encode()

    def _control(self, request: Request, connection: Connection) -> Work:
        status, body = self._controlled(request)
        connection.send(status, json.dumps(body).encode())
        return None

    def _controlled(self, request: Request) -> tuple[int, Any]:
        engine = self.engine
        match request.method, request.path:
            case "GET", "/state":
                return 200, engine.state()
            case "GET", "/requests":
                return 200, [_shown(each) for each in engine.requests]
            case "DELETE", "/requests":
                engine.requests.clear()
                engine.admin_calls.clear()
                return 200, {}
            case "PATCH", "/settings":
                return self._change(request.body)
        text = "GET /state, GET or DELETE /requests, PATCH /settings"
        return 404, {"error": f"there are: {text}"}

    def _change(self, body: bytes) -> tuple[int, Any]:
        try:
            changes = json.loads(body)
            if not isinstance(changes, dict):
                raise ValueError("settings: give an object of names and values")
            self.engine.change(changes)
        except ValueError as error:
            return 400, {"error": str(error)}
        return 200, self.engine.settings.record()


def _shown(request: Request) -> dict[str, Any]:
    """A request for people: bytes that are no UTF-8 are escaped, never lost."""
    return {
        "method": request.method,
        "path": request.path,
        "headers": [list(pair) for pair in request.headers],
        "body": request.body.decode("utf-8", "backslashreplace"),
    }
