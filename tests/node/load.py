"""Callers who go on calling while something is changed."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.node.harness import Onenode


@dataclass
class Load:
    """What became of every request so far."""

    answered: int = 0
    lost: list[str] = field(default_factory=list)
    """Requests that got no answer, or an error instead of one."""
    cut: int = 0
    """Streams that began and did not reach their end."""
    silent: int = 0
    """Of those, the ones that ended without an error."""


def _call(onenode: Onenode, load: Load, key: str) -> None:
    try:
        answer = onenode.ask(stream=True, key=key)
    except (OSError, http.client.HTTPException) as error:
        load.lost.append(repr(error))
        return
    if answer.status != http.client.OK:
        load.lost.append(f"{answer.status}: {answer.response.read()!r}")
        return
    _read(answer.events(), load)
    answer.connection.close()


def _read(events: Iterator[str], load: Load) -> None:
    try:
        data = list(events)
    except (OSError, http.client.HTTPException):
        load.cut += 1
        return
    if data[-1:] == ["[DONE]"]:
        load.answered += 1
    else:
        load.cut += 1
        load.silent += "error" not in "".join(data[-1:])


@contextmanager
def under_load(onenode: Onenode, callers: int = 3) -> Iterator[Load]:
    """Callers that send one request after the other, each on a connection of its own."""
    load, over = Load(), threading.Event()
    # This one has no limit on requests.
    key = onenode.key("assistant")

    def call() -> None:
        while not over.wait(0.05):
            _call(onenode, load, key)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        over.set()
        for thread in threads:
            thread.join()
