"""The cache of built tools: where it is, what a build is keyed by, and how it is published whole.

Layout, everything outside the checkout::

    tools/<module>-<version>-<key>/   finished programs; a folder that exists is complete
    go/go-<key>/                      the Go toolchain, where the machine has none
    valkey/valkey-<key>/              a program that comes finished, from a wheel of PyPI
    pulumi-home-<key>/                a PULUMI_HOME that holds the Kubernetes provider
    scratch/                          builds under way; nothing there is ever used
    locks/, logs/                     one file per build
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.toolchain.kinds import Module

SOURCES: Final = ("go.mod", "go.sum", "*.go")
"""The files of a module folder that its result depends on."""
GO_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false")
"""Reproducible: pinned modules only, no path of this machine and no state of a checkout inside."""
GO_SETTINGS: Final[Mapping[str, str]] = {
    # The releases of all these tools are built so, and a C compiler, present or broken, is no
    # part of the result then.
    "CGO_ENABLED": "0",
    "GO111MODULE": "on",
    # The Go that was chosen is the one that builds.
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
KEY_LENGTH: Final = 12
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Cache:
    """The cache's root folder, and the places in it."""

    root: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Cache:
        """``$TOKENWORKS_CACHE``, else ``$XDG_CACHE_HOME/tokenworks``, else ``~/.cache/tokenworks``.

        The XDG base directory specification says to ignore a relative path.
        """
        given = environ.get("TOKENWORKS_CACHE")
        if given:
            return cls(Path(given).expanduser().absolute())
        xdg = environ.get("XDG_CACHE_HOME", "")
        if Path(xdg).is_absolute():
            return cls(Path(xdg) / "tokenworks")
        home = environ.get("HOME")
        return cls((Path(home) if home else Path.home()) / ".cache" / "tokenworks")

    def tool_folder(self, module: Module, key: str) -> Path:
        """Where a module's finished programs are, if they are."""
        return self.root / "tools" / f"{module.name}-{module.version}-{key}"

    def scratch(self, name: str) -> Path:
        """An empty folder for work that may fail; only the holder of the lock may ask for it."""
        folder = self.root / "scratch" / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return folder

    def log(self, name: str) -> Path:
        """The log file of a build; its folder exists."""
        folder = self.root / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the machine-wide lock on a build; ``waiting`` is called while another holds it."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as file:
            while not try_lock(file.fileno()):
                waiting()
                time.sleep(_POLL_SECONDS)
            yield

    def prepare(self) -> None:
        """Make the root folder.

        Raises:
            OperationError: it cannot be written to.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            usable = os.access(self.root, os.W_OK | os.X_OK)
        except OSError:
            usable = False
        if not usable:
            raise OperationError(
                f"the cache of built tools at {self.root}",
                reason="it cannot be written to",
                remedy="set TOKENWORKS_CACHE to a folder of yours",
            )


def try_lock(descriptor: int) -> bool:
    """Take an exclusive lock that lasts until the file is closed; False when another has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cache_key(
    module: Module, sources: Mapping[str, Mapping[str, bytes]], system: str, machine: str
) -> str:
    """The twelve characters that name one build result.

    They cover what decides it: the module's row in the catalogue, every source file of its folder
    and of the folders that it borrows from (folder to file name to content), the flags, and the
    machine it runs on. The Go release is left out on purpose: a patch of the compiler gives the
    same programs to us, and is not worth twenty minutes of everyone's time; to take one, raise a
    tool's version.
    """
    recipe = {
        # An estimate decides nothing.
        "module": repr(replace(module, cold_seconds=0)),
        "sources": {
            folder: {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}
            for folder, files in sources.items()
        },
        "flags": [*GO_FLAGS, link_flags(module)],
        "settings": dict(GO_SETTINGS),
        "target": [system, machine],
    }
    return digest(json.dumps(recipe, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """The first twelve hexadecimal digits of the SHA-256 sum."""
    return hashlib.sha256(content).hexdigest()[:KEY_LENGTH]


def link_flags(module: Module) -> str:
    """The linker's flags: no debugging symbols, and the version where a program asks for it."""
    variables = (f"-X {name}={value}" for name, value in sorted(module.variables.items()))
    return " ".join(("-s -w", *variables))


def read_sources(tools: Path, module: Module) -> dict[str, dict[str, bytes]]:
    """What ``cache_key`` needs of the folders under ``tools``."""
    folders = {module.name, *(each.folder for each in (*module.embeds, *module.ships))}
    return {
        folder: {
            path.name: path.read_bytes()
            for pattern in SOURCES
            for path in sorted((tools / folder).glob(pattern))
        }
        for folder in sorted(folders)
    }


def publish(finished: Path, place: Path) -> None:
    """Move a finished folder to where it is used, whole: it is either absent or complete there."""
    for path in finished.rglob("*"):
        if path.is_file() and not path.is_symlink():
            _to_disk(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    finished.rename(place)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
