"""The files of a folder with their sizes and sums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tokenworks.environment.weights import WeightFile
from tokenworks.errors import OperationError

THREADS = 4
"""Files that are read at once: more than most disks serve any faster."""


def paths_in(folder: Path) -> tuple[str, ...]:
    """Paths of all files below a folder, without what git and download clients keep there.

    Raises:
        OperationError: there is no such folder.
    """
    if not folder.is_dir():
        raise OperationError(
            f"folder {folder}", reason="does not exist", remedy="name the folder with the files"
        )
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return tuple(sorted(str(one) for one in found if not one.parts[0].startswith(".")))


def summed(folder: Path, paths: Iterable[str]) -> tuple[WeightFile, ...]:
    """Size and sum of each of these files, in their order.

    Raises:
        OperationError: one cannot be read.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        return tuple(pool.map(lambda path: _summed(folder, path), paths))


def _summed(folder: Path, path: str) -> WeightFile:
    try:
        with (folder / path).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = stream.tell()
    except OSError as error:
        remedy = "correct its permissions"
        raise OperationError(f"file {folder / path}", reason=str(error), remedy=remedy) from error
    return WeightFile(path=path, bytes=size, sha256=digest)
