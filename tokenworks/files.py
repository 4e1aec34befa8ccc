"""Files that are always whole, and folders that one process at a time works in."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile


def private_folder(folder: Path) -> Path:
    """The folder, made if need be, closed to everybody but its owner."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_whole(path: Path, text: str) -> None:
    """Write a file that only its owner may read; whoever reads it finds the old or the new one."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)


def remove(folder: Path) -> None:
    """Remove a folder and all in it, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder while others wait; the folder itself is the lock, so that none is left over.

    The folder is made if need be, again if another process removed it meanwhile.
    """
    while True:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        except FileExistsError:
            # It vanished between the attempt to make it and the look at what is there instead.
            if folder.exists() and not folder.is_dir():
                raise
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(folder, descriptor):
                yield
                return
        finally:
            os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
