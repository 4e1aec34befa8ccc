"""An engine whose streams go on until they are let go, and the callers that hold them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .engine import SimulatedEngine
from .harness import Gateway, Stream, until


@dataclass
class HeldEngine(SimulatedEngine):
    """Sends an event every few milliseconds until ``released``."""

    released: threading.Event = field(default_factory=threading.Event)

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            await super()._answer(body, writer)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        while not self.released.is_set():
            await _event(writer, "data: more\n\n")
            await asyncio.sleep(0.03)
        await _event(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _event(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(f"{len(text):x}\r\n{text}\r\n".encode())
    await writer.drain()


@dataclass
class Held:
    """Streams that run; each must go on after whatever happens, and end whole once let go."""

    engine: HeldEngine
    streams: list[Stream]
    threads: list[threading.Thread]

    def go_on(self, after: str) -> None:
        """Every stream gets further events."""
        before = [len(stream.events) for stream in self.streams]
        for stream, count in zip(self.streams, before, strict=True):
            until(
                lambda stream=stream, count=count: len(stream.events) > count,  # type: ignore[misc]
                what=f"an event of a stream after {after}",
            )

    def let_go(self) -> None:
        """End the streams; none may have been cut."""
        self.engine.released.set()
        for thread in self.threads:
            thread.join(20)
        assert [stream.broken for stream in self.streams] == [False] * len(self.streams)


@contextlib.contextmanager
def held_streams(
    gateway: Gateway, engine: HeldEngine, model: str, count: int = 4
) -> Iterator[Held]:
    """``count`` streams that are running; those that are still held end with the block."""
    engine.released.clear()
    streams = [Stream() for _ in range(count)]
    threads = [
        threading.Thread(target=gateway.stream, args=({"model": model}, stream))
        for stream in streams
    ]
    held = Held(engine, streams, threads)
    try:
        for thread in threads:
            thread.start()
        held.go_on("their beginning")
        yield held
    finally:
        engine.released.set()
        for thread in threads:
            thread.join(20)
