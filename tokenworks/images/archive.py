"""The archive of a local node's images: built once for what goes into it, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from tokenworks.images.local import Sources, local_images
from tokenworks.images.oci import write_archive
from tokenworks.toolchain.cache import Cache, publish

RECIPE: Final = "1"
"""Raised by whoever changes what ``local`` or ``oci`` make of the same programs."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Images in one file, and the digest of each by its repository and tag."""

    file: Path
    digests: Mapping[str, str]


def archive(
    cache: Cache, sources: Sources, tags: Mapping[str, str], report: Callable[[str], None]
) -> Archive:
    """The archive, built in about ten seconds unless it is there; older ones are removed."""
    folder = cache.root / "images"
    place = folder / _key(sources, tags)
    with cache.lock("node-images", lambda: None):
        if not place.exists():
            report("building the node's images")
            scratch = cache.scratch("node-images")
            finished = scratch / "finished"
            finished.mkdir()
            _build(sources, tags, finished, scratch)
            shutil.rmtree(folder, ignore_errors=True)
            publish(finished, place)
            shutil.rmtree(scratch)
    digests = json.loads((place / "digests.json").read_text("utf-8"))
    return Archive(file=place / "images.tar", digests=digests)


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
    """What decides the archive: files as they are now, which is quicker to see than their sums."""
    files = [
        file for source in astuple(sources) for file in (sorted(source.glob("*.py")) or [source])
    ]
    seen = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    text = json.dumps([RECIPE, seen, sorted(tags.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
