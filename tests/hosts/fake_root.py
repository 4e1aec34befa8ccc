"""Folders that stand for hosts, and programs that answer from a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in ("ansible/module_utils", "ansible/library", "templates/hosts"):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))

import host_base  # type: ignore[import-not-found]  # noqa: E402 - found by the line above
import host_checks  # type: ignore[import-not-found]  # noqa: E402
import host_gate  # type: ignore[import-not-found]  # noqa: E402
import host_gpu  # type: ignore[import-not-found]  # noqa: E402
import host_state  # type: ignore[import-not-found]  # noqa: E402

__all__ = ["fake_host", "host_base", "host_checks", "host_gate", "host_gpu", "host_state"]


def fake_host(
    root: Path,
    files: Mapping[str, str | bytes],
    says: Mapping[str, str | tuple[int, str]] | None = None,
) -> Any:
    """A host whose files are these and whose programs answer what ``says`` has for their command.

    A program is looked up by its whole command line, then by its name; others do not exist.
    """
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def run(*command: str, seconds: float = 0) -> tuple[int, str] | None:
        answers = says or {}
        answer = answers.get(" ".join(command), answers.get(command[0]))
        return (0, answer) if isinstance(answer, str) else answer

    return host_base.Host(str(root), run)
