"""A Debian 12 to install into: made once for each machine, a fresh layer of it for each test."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tokenworks.files import exclusive
from tokenworks.toolchain.cache import Cache

SUITE: Final = "bookworm"
PACKAGES: Final = "python3,kmod"
RECIPE: Final = "1"
"""Raised by whoever changes how the root is made; it is part of the cache's key."""
_PRUNED: Final = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")


def require_root() -> None:
    """Skip, with the reason, where no root can be made."""
    missing = [name for name in ("debootstrap", "gpg", "mount") if shutil.which(name) is None]
    if os.geteuid() != 0:
        pytest.skip("Ansible on debootstrap roots was NOT tested: it needs root for chroot")
    if missing:
        pytest.skip(
            f"Ansible on debootstrap roots was NOT tested: {', '.join(missing)} missing; as root: "
            "apt-get install debootstrap gnupg mount"
        )


def tarball() -> Path:
    """Return the root as a tar file, made if this machine has none yet."""
    key = hashlib.sha256(f"{SUITE} {PACKAGES} {RECIPE}".encode()).hexdigest()[:12]
    folder = Cache.of(os.environ).root / "roots"
    place = folder / f"{SUITE}-{key}.tar"
    with exclusive(folder):
        if not place.exists():
            _make(place)
    return place


def _make(place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tokenworks-root-") as scratch:
        root = Path(scratch) / "root"
        made = subprocess.run(
            [  # noqa: S607 - the system's own
                "debootstrap",
                "--variant=minbase",
                f"--include={PACKAGES}",
                SUITE,
                str(root),
                *mirror(SUITE),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if made.returncode != 0:
            pytest.skip(f"Ansible on debootstrap roots was NOT tested: {made.stdout[-500:]}")
        for path in _PRUNED:
            shutil.rmtree(root / path, ignore_errors=True)
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        (root / "var/lib/apt/lists/partial").mkdir(parents=True)
        unfinished = place.with_suffix(".part")
        subprocess.run(["tar", "-C", root, "-cf", unfinished, "."], check=True)  # noqa: S607
        unfinished.replace(place)


def mirror(suite: str) -> list[str]:
    """Return where this machine itself gets the suite from; none, where it has another system."""
    asked = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)",
        f"Release: {suite}",
        "Created-By: Packages",
    ]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return said[:1]


def unpacked(folder: Path) -> Path:
    """Return the root unpacked below a folder that several processes share."""
    place = folder / "root"
    with exclusive(folder):
        if not place.exists():
            scratch = folder / "unpacking"
            scratch.mkdir()
            subprocess.run(["tar", "-C", scratch, "-xpf", tarball()], check=True)  # noqa: S607
            scratch.rename(place)
    return place


@contextmanager
def layer(lower: str, folder: Path) -> Iterator[Path]:
    """Give a root of one's own above others, which stay: ``upper`` has what is written."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root")]
    subprocess.run(mount, check=True)
    try:
        yield folder / "root"
    finally:
        subprocess.run(["umount", str(folder / "root")], check=True)  # noqa: S607
