"""The archive of a local node's images: built once for what goes into it, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from tokenworks.images.local import Sources, local_images
from tokenworks.images.oci import write_archive
from tokenworks.toolchain.cache import Cache, publish

RECIPE: Final = "1"
"""Raised by whoever changes what ``local`` or ``oci`` make of the same programs."""
UNUSED_SECONDS: Final = 24 * 60 * 60
"""After which an archive goes; other checkouts on this machine may be about to load theirs."""
_SUMMED_BYTES: Final = 1 << 20
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Images in one file, and the digest of each by its repository and tag."""

    file: Path
    digests: Mapping[str, str]


def archive(
    cache: Cache, sources: Sources, tags: Mapping[str, str], report: Callable[[str], None]
) -> Archive:
    """The archive, built in about ten seconds unless it is there; those that nobody uses go."""
    folder = cache.root / "images"
    place = folder / _key(sources, tags)
    with cache.lock("node-images", lambda: None):
        if not place.exists():
            report("building the node's images")
            scratch = cache.scratch("node-images")
            finished = scratch / "finished"
            finished.mkdir()
            _build(sources, tags, finished, scratch)
            publish(finished, place)
            shutil.rmtree(scratch)
        os.utime(place)
        _remove_unused(folder)
    digests = json.loads((place / "digests.json").read_text("utf-8"))
    return Archive(file=place / "images.tar", digests=digests)


def _remove_unused(folder: Path) -> None:
    for place in folder.iterdir():
        if time.time() - place.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(place, ignore_errors=True)


def _build(sources: Sources, tags: Mapping[str, str], finished: Path, scratch: Path) -> None:
    machine = platform.machine()
    digests = write_archive(
        local_images(sources, tags),
        _ARCHITECTURES.get(machine, machine),
        finished / "images.tar",
        scratch,
    )
    (finished / "digests.json").write_text(json.dumps(digests, indent=2), "utf-8")


def _key(sources: Sources, tags: Mapping[str, str]) -> str:
    """What decides the archive, whichever checkout asks for it."""
    files = [
        file for source in astuple(sources) for file in (sorted(source.glob("*.py")) or [source])
    ]
    text = json.dumps([RECIPE, [_seen(file) for file in files], sorted(tags.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _seen(file: Path) -> tuple[str, int, str]:
    """A small file by its sum; a program, or a tree, by its place and age, quicker to see."""
    status = file.stat()
    if file.is_dir() or status.st_size > _SUMMED_BYTES:
        return str(file), status.st_size, str(status.st_mtime_ns)
    return file.name, status.st_size, hashlib.sha256(file.read_bytes()).hexdigest()
