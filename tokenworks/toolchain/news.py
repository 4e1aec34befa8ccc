"""What a build says about itself while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """What a build is doing."""

    WAITING = "waiting"
    FETCHING = "fetching"
    COMPILING = "compiling"
    TRYING = "trying out"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One line of news about one module, or about the Go toolchain itself."""

    module: str
    phase: Phase
    detail: str = ""


Report = Callable[[Progress], None]
"""Takes the news, from any thread; see ``tokenworks.toolchain.progress.showing``."""
