"""The populate tool, run as its Job runs it: a process of its own with a volume and settings."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenworks.templating import TEMPLATES

TOOLS = TEMPLATES / "weights"
MIB = 2**20
MODEL = "model"
REVISION = "1" * 12 + "-" + "2" * 12


def made_up(seed: int, large: int = 2 * MIB + 12345) -> dict[str, bytes]:
    """Files of a small model; ``large`` bytes in the larger of its shards."""
    draw = random.Random(seed)
    return {
        "config.json": b'{"architectures": []}',
        "empty.txt": b"",
        "model-00001-of-00002.safetensors": draw.randbytes(large),
        "model-00002-of-00002.safetensors": draw.randbytes(MIB),
        "tokenizer/vocab file.json": draw.randbytes(4321),
    }


def manifest_of(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The manifest's entries of these files."""
    return [
        {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]


@dataclass(frozen=True)
class Volume:
    """A volume with the files that one revision is to have."""

    folder: Path
    files: dict[str, bytes]
    revision: str = REVISION
    entries: list[dict[str, Any]] | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """What a Job mounts."""
        return self.folder / "volume"

    @property
    def published(self) -> Path:
        """Where engines find the revision."""
        return self.path / self.revision / MODEL

    def command(self, source: Mapping[str, Any]) -> list[str]:
        """What the Job runs."""
        self.path.mkdir(exist_ok=True)
        settings = {
            "revision": self.revision,
            "model": MODEL,
            "source": source,
            "connections": 3,
            "attempts": 4,
            "pause_seconds": 0.01,
            "every_seconds": 0.2,
        } | self.changes
        names = [self.folder / f"{self.revision}-{name}.json" for name in ("settings", "manifest")]
        entries = manifest_of(self.files) if self.entries is None else self.entries
        names[0].write_text(json.dumps(settings))
        names[1].write_text(json.dumps({"files": entries}))
        return [str(TOOLS / "populate.py"), *map(str, names), str(self.path)]

    def run(self, source: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run the tool to its end."""
        return run(self.command(source))

    def state(self) -> dict[str, bytes] | None:
        """What engines see: every file of the published revision, or None."""
        if not self.published.parent.exists():
            return None
        found = (one for one in self.published.parent.rglob("*") if not one.is_dir())
        return {str(one.relative_to(self.published)): one.read_bytes() for one in found}


def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a tool with the arguments of a container."""
    return subprocess.run(
        [sys.executable, "-B", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": os.environ["PATH"]},
        **more,
    )
