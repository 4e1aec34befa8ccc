"""Systems to install into: made once for each machine, a fresh layer of one for each test."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tokenworks.files import exclusive
from tokenworks.toolchain.cache import Cache

SUITE: Final = "bookworm"
UBUNTU: Final = {"ubuntu-22.04": "jammy", "ubuntu-24.04": "noble"}
MIRROR_OF_UBUNTU: Final = "TESTS_UBUNTU_MIRROR"
"""Variable that names a mirror, for machines that are no Ubuntu themselves and reach one."""
PACKAGES: Final = "python3,kmod"
RECIPE: Final = "1"
"""Raised by whoever changes how the root is made; it is part of the cache's key."""
PATIENCE_SECONDS: Final = 20
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


def require_ubuntu(system: str) -> None:
    """Skip, with the reason, where nothing is known to bring a system of Ubuntu's."""
    if not mirror(UBUNTU[system]):
        pytest.skip(
            f"roles on {system} were NOT tested: this machine gets no {UBUNTU[system]} from "
            f"anywhere; name a mirror in {MIRROR_OF_UBUNTU}"
        )


def tarball(suite: str = SUITE) -> Path:
    """Return the root of a suite as a tar file, made if this machine has none yet."""
    key = hashlib.sha256(f"{suite} {PACKAGES} {RECIPE}".encode()).hexdigest()[:12]
    folder = Cache.of(os.environ).root / "roots"
    place = folder / f"{suite}-{key}.tar"
    with exclusive(folder):
        if not place.exists():
            _make(suite, place)
    return place


def _make(suite: str, place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tokenworks-root-") as scratch:
        root = Path(scratch) / "root"
        made = subprocess.run(
            [  # noqa: S607 - the system's own
                "debootstrap",
                "--variant=minbase",
                f"--include={PACKAGES}",
                suite,
                str(root),
                *mirror(suite),
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
    """Return where this machine itself gets the suite from; none, where it has another system.

    One of Ubuntu's that is named comes first.
    """
    named = os.environ.get(MIRROR_OF_UBUNTU)
    if named and suite in UBUNTU.values():
        return [named]
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


def source() -> str:
    """Return a line of apt's sources for the whole suite; skip where nothing brings it."""
    found = mirror(SUITE)
    if not found:
        pytest.skip(f"this was NOT tested: this machine gets no {SUITE} from anywhere")
    return f"deb {found[0]} {SUITE} main\n"


def unpacked(folder: Path, suite: str = SUITE) -> Path:
    """Return the root of a suite, unpacked below a folder that several processes share."""
    place = folder / f"root-{suite}"
    with exclusive(folder):
        if not place.exists():
            scratch = folder / "unpacking"
            scratch.mkdir()
            subprocess.run(["tar", "-C", scratch, "-xpf", tarball(suite)], check=True)  # noqa: S607
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
        _unmount(folder / "root")


def _unmount(root: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        end_everything_in(root)
        done = subprocess.run(["umount", str(root)], capture_output=True, check=False)  # noqa: S607
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.1)


def end_everything_in(root: Path) -> None:
    """End the processes whose root it is, such as agents that gpg leaves behind."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "root").readlink() == root:
                os.kill(int(place.name), signal.SIGKILL)
