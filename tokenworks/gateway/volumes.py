"""Folders that change as the kubelet changes them: all files at once, by one link."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenworks.files import private_folder, write_whole


@dataclass(frozen=True)
class Volume:
    """A folder like a mounted ConfigMap or Secret: Envoy sees a change only as it sees it there.

    Files are links into ``..data``, which is itself a link that is swapped.
    """

    root: Path

    def publish(self, files: Mapping[str, str]) -> None:
        """Make these the files, all in one moment; what is gone from them is gone there too."""
        private_folder(self.root)
        old = self.root / "..data"
        before = old.readlink() if old.is_symlink() else None
        folder = private_folder(self.root / f"..{self._next()}")
        for name, text in files.items():
            write_whole(folder / name, text)
        fresh = self.root / "..new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name)
        fresh.replace(old)
        self._link(files)
        if before is not None:
            shutil.rmtree(self.root / before, ignore_errors=True)

    def _next(self) -> int:
        numbers = (path.name[2:] for path in self.root.iterdir() if path.name.startswith(".."))
        return max((int(number) for number in numbers if number.isdigit()), default=0) + 1

    def _link(self, files: Mapping[str, str]) -> None:
        for path in self.root.iterdir():
            if not path.name.startswith("..") and path.name not in files:
                path.unlink()
        for name in files:
            if not (self.root / name).is_symlink():
                (self.root / name).symlink_to(f"..data/{name}")
