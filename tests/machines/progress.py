"""What a test of machines is waiting for, one line each, past pytest's capture of output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

_aside: Callable[[], AbstractContextManager[None]] = nullcontext
_BEGAN: Final = time.monotonic()


def show_past(aside: Callable[[], AbstractContextManager[None]]) -> None:
    """Take what lifts the capture of output while a line is written."""
    global _aside  # noqa: PLW0603 - one terminal, one capture
    _aside = aside


def say(text: str) -> None:
    """Write a line to the terminal, with the minutes and seconds since the tests began."""
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    with _aside():
        print(f"tests/machines {minutes:2}:{seconds:02} {text}", file=sys.stderr, flush=True)


@contextmanager
def told(text: str) -> Iterator[None]:
    """Say what begins, and how long it took once it is over."""
    began = time.monotonic()
    say(f"{text} ...")
    yield
    say(f"{text}: {time.monotonic() - began:.0f} s")
