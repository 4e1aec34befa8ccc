"""The images of a local node, made from programs of this machine: which they are, and their names.

Each stands in for one image of production and takes the same command, arguments, user and mounts,
so that a manifest differs in nothing but the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.images.oci import Entry, Image
from tokenworks.images.packages import files_of

REGISTRY: Final = "tokenworks.local"
"""A name under ``.local``, which no registry can have (RFC 6762)."""
BASE_PACKAGES: Final = ("bash", "coreutils", "python3", "python3-yaml")
"""The gateway's commands are bash, the engine and the weights tools Python."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ENGINE: Final = f"{REGISTRY}/simulated-engine"
ENVOY: Final = f"{REGISTRY}/envoy"
RATE_LIMIT: Final = f"{REGISTRY}/ratelimit"
STORE: Final = f"{REGISTRY}/valkey"
PAUSE: Final = f"{REGISTRY}/pause"
DNS: Final = f"{REGISTRY}/coredns"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the programs are that go into the images."""

    debian: Path
    """A Debian with ``BASE_PACKAGES``."""
    envoy: Path
    rate_limit: Path
    store: Path
    pause: Path
    dns: Path
    engine: Path
    """The package of the simulated engine."""
    engine_command: Path
    """What answers to the engine's command line."""


def local_images(sources: Sources, tags: Mapping[str, str]) -> tuple[Image, ...]:
    """Every image; ``tags`` says which release each stands for, by its repository."""
    base = files_of(sources.debian, BASE_PACKAGES)
    engine = (
        *_program(sources.engine_command, "usr/local/bin/trtllm-serve"),
        *_package(sources.engine, "opt/tokenworks/simulated_engine"),
    )
    layers: dict[str, tuple[tuple[Entry, ...], ...]] = {
        ENGINE: (base, engine),
        ENVOY: (base, _program(sources.envoy, "usr/local/bin/envoy")),
        RATE_LIMIT: (_program(sources.rate_limit, "bin/ratelimit"),),
        STORE: (base, _program(sources.store, "usr/local/bin/valkey-server")),
        PAUSE: (_program(sources.pause, "pause"),),
        DNS: (_program(sources.dns, "coredns"),),
    }
    starts = {PAUSE: ("/pause",), DNS: ("/coredns",)}
    return tuple(
        Image(
            name=f"{repository}:{tags[repository]}",
            layers=given,
            environment={"PATH": PATH},
            entrypoint=starts.get(repository, ()),
        )
        for repository, given in layers.items()
    )


def _program(source: Path, place: str) -> tuple[Entry, ...]:
    return (*_folders(place), Entry(path=place, source=source))


def _package(source: Path, place: str) -> tuple[Entry, ...]:
    files = sorted(source.glob("*.py"))
    entries = (Entry(path=f"{place}/{file.name}", mode=0o644, source=file) for file in files)
    return (*_folders(f"{place}/x"), *entries)


def _folders(place: str) -> tuple[Entry, ...]:
    parents = [str(each) for each in Path(place).parents if str(each) != "."]
    return tuple(Entry(path=each) for each in reversed(parents))
