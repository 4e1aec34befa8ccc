"""Callers who go on calling while something is changed."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.node.harness import Onenode

TOKEN_SECONDS = 0.1
"""What engines that are slowed need for a token."""
LONG_TOKENS = 250
"""An answer of 25 seconds then, ten more than a leaving pod has until it is asked to end."""
LONG_EVERY_SECONDS = 0.5
"""So that every pod always has some, of all ages."""


@dataclass
class Load:
    """What became of every request so far."""

    answered: int = 0
    long: int = 0
    """Of those, the ones that were meant to outlive pods."""
    lost: list[str] = field(default_factory=list)
    """Requests that got no answer, or an error instead of one."""
    cut: list[str] = field(default_factory=list)
    """How streams ended that began and did not reach their end."""
    enough: threading.Event = field(default_factory=threading.Event)
    """Set, no long answer is begun any more."""


@dataclass(frozen=True)
class _Callers:
    """Who calls, and until when."""

    onenode: Onenode
    key: str
    load: Load
    over: threading.Event

    def call_on(self) -> None:
        """One request after the other."""
        while not self.over.wait(0.05):
            self.call()

    def begin_long_ones(self) -> None:
        """A long answer is begun all the time; returns when the last one is read to its end."""
        begun = []
        while not self.load.enough.wait(LONG_EVERY_SECONDS):
            begun.append(threading.Thread(target=self.call_long))
            begun[-1].start()
        for thread in begun:
            thread.join()

    def call_long(self) -> None:
        """One long answer."""
        if self.call(max_tokens=LONG_TOKENS, ignore_eos=True):
            self.load.long += 1

    def call(self, **fields: object) -> bool:
        """One request on a connection of its own; returns whether all of its answer came."""
        try:
            answer = self.onenode.ask(stream=True, key=self.key, **fields)
        except (OSError, http.client.HTTPException) as error:
            self.load.lost.append(repr(error))
            return False
        if answer.status != http.client.OK:
            self.load.lost.append(f"{answer.status}: {answer.response.read()!r}")
            return False
        last = answer.ending()
        answer.connection.close()
        if last != "[DONE]":
            self.load.cut.append(last)
            return False
        self.load.answered += 1
        return True


@contextmanager
def under_load(onenode: Onenode, *, callers: int = 3, long: bool = False) -> Iterator[Load]:
    """Callers that send one request after the other.

    With ``long`` answers are begun all the time that take longer than a pod has to leave; all of
    them are read to their end before this is over.
    """
    # This one has no limit on requests.
    calling = _Callers(onenode, onenode.key("assistant"), Load(), threading.Event())
    threads = [threading.Thread(target=calling.call_on) for _ in range(callers)]
    if long:
        threads.append(threading.Thread(target=calling.begin_long_ones))
    for thread in threads:
        thread.start()
    try:
        yield calling.load
    finally:
        calling.load.enough.set()
        calling.over.set()
        for thread in threads:
            thread.join()


class Slowly:
    """Has every engine write slowly, also those that come while something is changed."""

    def __init__(self, onenode: Onenode) -> None:
        self._onenode = onenode
        self._slowed: set[str] = set()

    def look(self) -> None:
        """Slow the engines that came since the last look."""
        for name in set(self._onenode.engines()) - self._slowed:
            if self._onenode.ready(name):
                settings = {"inter_token_seconds": TOKEN_SECONDS}
                self._onenode.control(name, "PATCH", "/settings", settings)
                self._slowed.add(name)
