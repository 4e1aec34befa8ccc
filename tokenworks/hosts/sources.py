"""What in the checkout decides what a run does to a host, and one digest over it.

Playbooks, roles and modules do what was planned; the templates of managed files and the code that
plans decide what that is. A pool is due, and an image is another one, when any of them changes.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "tokenworks"
_FOLDERS: Final = ("ansible", "templates/hosts")


def run_sources(checkout: Path) -> tuple[Path, ...]:
    """Return every file that decides what a run does, sorted.

    Those are all files of the playbooks and of the managed files' templates, and the modules of
    this package that Ansible's plugins import, with everything that those import in turn. What only
    shows or starts a run is not among them: a new table must not bring machines down.
    """
    files = {file for folder in _FOLDERS for file in _files(checkout / folder)}
    waiting = [file for file in files if file.suffix == ".py"]
    while waiting:
        found = set(_imported(checkout, waiting.pop())) - files
        files |= found
        waiting += found
    return tuple(sorted(files))


def sources_digest(checkout: Path) -> str:
    """Return the SHA-256 over these files and their names, wherever the checkout lies."""
    whole = hashlib.sha256()
    for file in run_sources(checkout):
        whole.update(f"{file.relative_to(checkout)}\0".encode())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _imported(checkout: Path, file: Path) -> Iterator[Path]:
    """The modules of this package that a module imports, at whatever place in it."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        for name in _names(node):
            if name.split(".")[0] == PACKAGE:
                place = checkout.joinpath(*name.split("."))
                candidates = (place.with_suffix(".py"), place / "__init__.py")
                yield from (candidate for candidate in candidates if candidate.is_file())


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []
