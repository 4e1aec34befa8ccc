"""Showing builds under way: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tokenworks.toolchain.news import Phase, Progress, Report

PLAIN_EVERY_SECONDS: Final = 30
"""How often a plain log repeats that a build is still going on."""
_OVER: Final = (Phase.DONE, Phase.FAILED)


@dataclass(frozen=True)
class _Row:
    phase: Phase
    detail: str
    began: float
    ended: float | None
    printed: float


class _Board:
    """The last news of each module, in the order in which they first appeared."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._lock = threading.Lock()

    def take(self, news: Progress) -> str | None:
        """Note the news; give back a line to print when it is a change or a while ago."""
        now = time.monotonic()
        with self._lock:
            before = self._rows.get(news.module)
            began = before.began if before else now
            ended = now if news.phase in _OVER else None
            due = before is None or before.phase is not news.phase
            due = due or (before is not None and now - before.printed >= PLAIN_EVERY_SECONDS)
            printed = now if due or before is None else before.printed
            self._rows[news.module] = _Row(news.phase, news.detail, began, ended, printed)
        detail = f", {news.detail}" if news.detail else ""
        return f"{news.module}: {news.phase.value}{detail} ({took(now - began)})" if due else None

    def __rich__(self) -> Table:
        now = time.monotonic()
        table = Table(box=None, pad_edge=False)
        for heading in ("tool", "", "time"):
            table.add_column(heading, no_wrap=True)
        table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
        with self._lock:
            for module, row in self._rows.items():
                elapsed = took((row.ended or now) - row.began)
                table.add_row(module, row.phase.value, elapsed, Text(row.detail))
        return table


def took(seconds: float) -> str:
    """A duration as people say it: ``8 s``, ``2 min 05 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def showing(console: Console) -> Iterator[Report]:
    """A reporter for builds, for as long as the ``with`` block lasts."""
    board = _Board()
    if console.is_terminal:
        with Live(board, console=console, refresh_per_second=4):
            yield lambda news: _ignore(board.take(news))
        return

    def line(news: Progress) -> None:
        due = board.take(news)
        if due is not None:
            console.print(due, highlight=False, markup=False, soft_wrap=True)

    yield line


def _ignore(_: str | None) -> None:
    """The live table redraws itself."""
