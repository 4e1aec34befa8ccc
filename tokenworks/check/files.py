"""Files of manifests, found below whatever people name, and read within bounds."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tokenworks.check.sources import Reading

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
MOST_BYTES: Final = 10 * 1024 * 1024
"""Size of one text. An API server takes objects up to about 1.5 MiB (etcd.io, system limits), and
rendered manifests of 16,000 Deployments are as large as this."""

_SPLIT: Final = "split it; nothing that a cluster accepts is so large"
_TEXT: Final = "give UTF-8 text of Kubernetes manifests"


def read_manifests(paths: Sequence[str]) -> Reading:
    """Read manifests from files, from folders with all below them, and from ``-`` (input).

    A path that gives no object at all is a finding, as is every file that cannot be read.
    """
    reading = Reading()
    for path in paths:
        before = len(reading.resources) + len(reading.findings)
        for file in _files(path, reading):
            text = _text(file, reading)
            if text is not None:
                reading.add_manifests(text, shown(file))
        if len(reading.resources) + len(reading.findings) == before:
            reading.refuse(
                shown(path),
                "holds no Kubernetes object, so that there was nothing to judge",
                f"name files, or a folder of {', '.join(SUFFIXES)} files",
            )
    return reading


def read_resources(paths: Sequence[str]) -> Reading:
    """Read JSON or YAML lists of ``{type, name, properties}``; an empty list is a finding."""
    reading = Reading()
    for path in paths:
        before = len(reading.resources) + len(reading.findings)
        text = _text(path, reading)
        if text is not None:
            reading.add_list(text, shown(path))
        if len(reading.resources) + len(reading.findings) == before:
            reason = "holds no resource, so that there was nothing to judge"
            reading.refuse(shown(path), reason, "give a list of {type, name, properties}")
    return reading


def shown(path: str) -> str:
    """Return a path as it can be printed: bytes that are no UTF-8 are written out."""
    if path == STDIN:
        return "standard input"
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _files(path: str, reading: Reading) -> Iterator[str]:
    if path == STDIN or not _is_folder(path):
        yield path
        return
    yield from _Walk(reading).below(Path(path))


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:
        return False  # and reading it will say why


@dataclass
class _Walk:
    """One walk through a folder, which enters each folder once, whatever links lead to it."""

    reading: Reading

    def below(self, top: Path) -> Iterator[str]:
        """Yield the manifests below a folder, sorted."""
        entered: set[tuple[int, int]] = set()
        for folder, names, files in os.walk(top, followlinks=True, onerror=self._unreadable):
            if self._is_new(folder, entered):
                names.sort()
                yield from self._manifests(Path(folder), files)
            else:
                names.clear()

    def _is_new(self, folder: str, entered: set[tuple[int, int]]) -> bool:
        try:
            about = Path(folder).stat()
        except OSError as error:
            self._unreadable(error)
            return False
        identity = (about.st_dev, about.st_ino)
        known = identity in entered
        entered.add(identity)
        return not known

    def _manifests(self, folder: Path, names: Sequence[str]) -> Iterator[str]:
        for name in sorted(names):
            file = folder / name
            if not name.lower().endswith(SUFFIXES):
                continue
            if file.is_fifo():  # opening one would wait for a writer, perhaps for ever
                self.reading.refuse(shown(str(file)), "is a pipe", "name it by itself to read it")
            else:
                yield str(file)

    def _unreadable(self, error: OSError) -> None:
        name = shown(str(error.filename))
        self.reading.refuse(name, f"cannot be read ({error.strerror})", "make the folder readable")


def _text(path: str, reading: Reading) -> str | None:
    try:
        raw = _bytes(path)
    except OSError as error:
        reason = f"cannot be read ({error.strerror or type(error).__name__})"
        reading.refuse(shown(path), reason, "name a file that exists and can be read")
        return None
    if len(raw) > MOST_BYTES:
        reading.refuse(shown(path), f"is larger than {MOST_BYTES // 1024**2} MiB", _SPLIT)
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reading.refuse(shown(path), f"is no UTF-8 text (byte {error.start})", _TEXT)
        return None


def _bytes(path: str) -> bytes:
    """Return what a file holds, up to one byte more than it may."""
    if path == STDIN:
        return _up_to_the_bound(sys.stdin.buffer)
    file = Path(path)
    if stat.S_ISREG(file.stat().st_mode) and file.stat().st_size > MOST_BYTES:
        return bytes(MOST_BYTES + 1)  # known to be too large without reading it
    with file.open("rb") as stream:
        return _up_to_the_bound(stream)


def _up_to_the_bound(stream: IO[bytes]) -> bytes:
    return stream.read(MOST_BYTES + 1)
