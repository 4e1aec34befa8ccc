"""Files that nobody else on the machine may read, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """The folder, made if needed, closed to everybody else."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def write_private(file: Path, text: str) -> None:
    """Write a file with mode 0600 by renaming a finished one over it."""
    private_folder(file.parent)
    descriptor, name = tempfile.mkstemp(dir=file.parent)  # created with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
