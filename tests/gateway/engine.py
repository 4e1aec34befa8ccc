"""A simulated engine: records what reaches it and streams what the request asks for."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    """One request as it arrived, header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class SimulatedEngine:
    """An HTTP/1.1 server on loopback in a thread of its own.

    The body's ``simulate`` object steers the answer: ``events`` and ``gap_seconds`` of a stream,
    ``delay_seconds`` before the answer, ``delay_on`` and ``status_on`` for the engine of one port,
    ``headers`` of an answer that is no stream.
    """

    host: str = "127.0.0.1"
    port: int = 0
    received: list[Received] = field(default_factory=list)
    aborted: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _end(self) -> None:
        """As a process that is killed: its connections end, too, whatever they wait for."""
        self._server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connection, self.host, self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await _read(reader)
                if request.path == "/health_generate":
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    continue
                self.received.append(request)
                await self._answer(_steering(request.body), writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except ConnectionError:
            self.aborted += 1
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        simulate = body.get("simulate", {})
        here = str(self.port)
        await asyncio.sleep(
            simulate.get("delay_on", {}).get(here, simulate.get("delay_seconds", 0))
        )
        if here in simulate.get("status_on", {}):
            status = simulate["status_on"][here]
            writer.write(f"HTTP/1.1 {status} Simulated\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        if body.get("stream"):
            await _stream(simulate.get("events", 3), simulate.get("gap_seconds", 0.0), writer)
            return
        text = json.dumps({"engine": self.port, "model": body.get("model")}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(text))}
        lines = [f"{name}: {it}" for name, it in {**headers, **simulate.get("headers", {})}.items()]
        writer.write("\r\n".join(["HTTP/1.1 200 OK", *lines, "\r\n"]).encode() + text)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in pairs}
    length = int(headers.get("content-length", "0"))
    return Received(method, path, headers, await reader.readexactly(length))


def _steering(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    assert isinstance(value, dict)
    return value


async def _stream(events: int, gap_seconds: float, writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for text in [*(f"data: {number}\n\n" for number in range(events)), "data: [DONE]\n\n"]:
        writer.write(f"{len(text):x}\r\n{text}\r\n".encode())
        await writer.drain()
        await asyncio.sleep(gap_seconds)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
