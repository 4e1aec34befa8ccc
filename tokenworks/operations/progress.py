"""How far an update is: a picture of it from the engine's events, and ways to show the picture."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pulumi.automation import EngineEvent, OpType
from rich.console import Console
from rich.live import Live
from rich.text import Text

PLAIN_INTERVAL_SECONDS = 5.0
SHOWN_AWAITED = 3
COLOUR_MARK = re.compile(r"<\{%[^%]*%\}>")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One stack's update: resources planned and done, and those being awaited since when."""

    stack: str
    planned: int | None
    finished: frozenset[str] = frozenset()
    awaited: tuple[tuple[str, float], ...] = ()

    def line(self, now: float) -> str:
        """The picture in one line."""
        done = len(self.finished)
        of = f" of {max(self.planned, done)}" if self.planned else ""
        text = f"{self.stack}: {done}{of} resources"
        if self.awaited:
            shown = [
                f"{name} ({now - since:.0f} s)" for name, since in self.awaited[:SHOWN_AWAITED]
            ]
            more = len(self.awaited) - len(shown)
            text += f", awaiting {', '.join(shown)}" + (f" and {more} more" if more else "")
        return text


def advance(progress: Progress, event: EngineEvent, now: float) -> Progress:
    """The picture after one more event of the engine."""
    if event.resource_pre_event:
        step = event.resource_pre_event.metadata
        state = step.new or step.old
        if step.op is OpType.SAME or not (state and state.custom):
            return progress  # nothing is asked of the world for these
        return replace(progress, awaited=(*progress.awaited, (_name(step.urn), now)))
    if event.res_outputs_event:
        urn = event.res_outputs_event.metadata.urn
        progress = replace(progress, finished=progress.finished | {urn})
        return _no_longer_awaited(progress, urn)
    if event.res_op_failed_event:
        return _no_longer_awaited(progress, event.res_op_failed_event.metadata.urn)
    return progress


def _no_longer_awaited(progress: Progress, urn: str) -> Progress:
    name = _name(urn)
    return replace(progress, awaited=tuple(e for e in progress.awaited if e[0] != name))


def plain(message: str) -> str:
    """A message of the engine without its colour marks."""
    return COLOUR_MARK.sub("", message)


def _name(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


class Tracker:
    """Keeps the picture of one update and the warnings it gave, fed by the engine's events."""

    def __init__(self, stack: str, planned: int | None) -> None:
        self.progress = Progress(stack=stack, planned=planned)
        self.warnings: list[str] = []

    def __call__(self, event: EngineEvent) -> None:
        """Take one event."""
        self.progress = advance(self.progress, event, time.monotonic())
        diagnostic = event.diagnostic_event
        # Ephemeral ones are states on the way, such as a Deployment whose pods still start.
        if diagnostic and diagnostic.severity == "warning" and not diagnostic.ephemeral:
            self.warnings.append(plain(diagnostic.message).strip())

    def __rich__(self) -> Text:
        """The picture as it is now; asked again and again while it is shown."""
        return Text(self.progress.line(time.monotonic()))


@contextlib.contextmanager
def shown(tracker: Tracker, console: Console) -> Iterator[Tracker]:
    """Show the picture while it changes: one moving line, or a line now and then off a terminal."""
    if console.is_terminal:
        with Live(tracker, console=console, transient=True, refresh_per_second=4):
            yield tracker
        return
    over = threading.Event()

    def print_now_and_then() -> None:
        while not over.wait(PLAIN_INTERVAL_SECONDS):
            line = tracker.progress.line(time.monotonic())
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    printer = threading.Thread(target=print_now_and_then, daemon=True)
    printer.start()
    try:
        yield tracker
    finally:
        over.set()
        printer.join()
