"""The disk that machines start from: a real Debian 12 with two kernels, made once and kept.

It is debootstrapped, furnished by ``image/furnish.sh`` inside itself and turned into a file system;
nothing is emulated for that, so it takes two or three minutes. It lies in the cache, under a name
that changes with the recipe. A boot loader of its own, GRUB on a second small disk, reads the
machine's own ``/boot/grub/grub.cfg``: which kernel starts is decided as on a real machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.ansible import roots
from tests.machines.progress import say
from tokenworks.files import exclusive
from tokenworks.toolchain.cache import Cache

SUITE: Final = "bookworm"
RECIPE: Final = Path(__file__).parent / "image"
PACKAGES: Final = "systemd-sysv,udev,dbus,python3,kmod,initramfs-tools,gnupg,zstd"
PROGRAMS: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "debootstrap": "debootstrap",
    "mkfs.ext4": "e2fsprogs",
    "gpg": "gnupg",
    "ssh": "openssh-client",
    "setpriv": "util-linux",
    "ssh-keygen": "openssh-client",
}
DISK_SIZE: Final = "6G"
_WEEK_SECONDS: Final = 7 * 24 * 60 * 60
_OFFICIAL: Final = {
    SUITE: "http://deb.debian.org/debian",
    f"{SUITE}-security": "http://deb.debian.org/debian-security",
}


def require_machines() -> None:
    """Skip, with the reason and what to install, where no machine can be booted."""
    if os.geteuid() != 0:
        pytest.skip("hosts were NOT tested on booted machines: making their disk needs root")
    missing = sorted({package for name, package in PROGRAMS.items() if shutil.which(name) is None})
    if missing:
        pytest.skip(
            "hosts were NOT tested on booted machines; as root: apt-get install "
            + " ".join(missing)
        )


@dataclass(frozen=True)
class Image:
    """A furnished disk and what is known of it."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The file system, without a partition table."""
        return self.folder / "disk.raw"

    @property
    def loader(self) -> Path:
        """The disk that the firmware starts: GRUB and nothing else."""
        return self.folder / "loader.img"

    @property
    def key_file(self) -> Path:
        """The private key that logs in as root."""
        return self.folder / "key"

    @property
    def newer_kernel_package(self) -> Path:
        """The distribution's package of a kernel newer than the one installed."""
        return self.folder / "newer-kernel.deb"

    @property
    def nouveau(self) -> Path:
        """Folder with the stand-in for nouveau, one file for each kernel release."""
        return self.folder / "nouveau"

    @property
    def kernel(self) -> str:
        """Release of the installed kernel."""
        return self._word("kernel")

    @property
    def newer_kernel(self) -> str:
        """Release of the newer one."""
        return self._word("newer-kernel")

    @property
    def packages(self) -> dict[str, tuple[str, str]]:
        """Version and SHA-256 of each installed package that a lock is about."""
        lines = (line.split() for line in (self.folder / "packages").read_text().splitlines())
        return {name: (version, sha256) for name, version, sha256 in lines}

    def known_hosts(self, addresses: str) -> str:
        """Return the line by which OpenSSH knows machines at addresses (a pattern)."""
        return f"{addresses} {' '.join(self._word('host-key.pub').split()[:2])}\n"

    def _word(self, name: str) -> str:
        return (self.folder / name).read_text().strip()


def image() -> Image:
    """Return the disk, made if this user's cache has none of this recipe."""
    root = Cache.of(os.environ).root / "machines"
    place = root / f"{SUITE}-{_key()}"
    with exclusive(root):
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=root, prefix=".making-") as scratch:
                _make(Path(scratch)).rename(place)
        os.utime(place)
        _forget_old_ones(root)
    return Image(place)


def _key() -> str:
    whole = hashlib.sha256(f"{SUITE} {PACKAGES} {DISK_SIZE}".encode())
    for file in sorted(path for path in RECIPE.rglob("*") if path.is_file()):
        whole.update(f"{file.relative_to(RECIPE)}\0".encode() + file.read_bytes())
    return whole.hexdigest()[:12]


def _forget_old_ones(root: Path) -> None:
    """Remove disks that no test has asked for in a week; each takes a gigabyte."""
    for folder in root.iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _WEEK_SECONDS:
            shutil.rmtree(folder)


def _make(scratch: Path) -> Path:
    log = scratch / "log"
    root, done = scratch / "root", scratch / "image"
    mirrors = {s: next(iter(roots.mirror(s)), official) for s, official in _OFFICIAL.items()}
    with log.open("w") as said:
        say("making the machines' disk, once: the base system, about a minute")
        options = ("--variant=minbase", f"--include={PACKAGES}")
        _run(["debootstrap", *options, SUITE, str(root), mirrors[SUITE]], said)
        lines = [f"deb {mirror} {suite} main\n" for suite, mirror in mirrors.items()]
        (root / "etc/apt/sources.list").write_text("".join(lines))
        say("making the machines' disk: kernels, compiler and boot loader, about a minute")
        shutil.copytree(RECIPE, root / "furnishing")
        key = scratch / "key"
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], said)
        shutil.copy(key.with_suffix(".pub"), root / "furnishing" / "key.pub")
        (root / "furnished").mkdir()
        with _mounted(root / "proc"):
            _run(["chroot", str(root), "/furnishing/furnish.sh"], said)
        (root / "furnished").rename(done)
        shutil.rmtree(root / "furnishing")
        key.rename(done / "key")
        say("making the machines' disk: the file system, some seconds")
        disk = str(done / "disk.raw")
        _run(["mkfs.ext4", "-q", "-L", "machine", "-d", str(root), disk, DISK_SIZE], said)
    return done


@contextmanager
def _mounted(proc: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "proc", "proc", proc], check=True)  # noqa: S607
    try:
        yield
    finally:
        subprocess.run(["umount", proc], check=True)  # noqa: S607


def _run(command: list[str], said: object) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    environment["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    done = subprocess.run(
        command, stdout=said, stderr=subprocess.STDOUT, env=environment, check=False, timeout=1800
    )  # type: ignore[call-overload]
    if done.returncode != 0:
        tail = Path(said.name).read_text(errors="replace")[-3000:]  # type: ignore[attr-defined]
        pytest.fail(f"the machines' disk cannot be made: {' '.join(command)} failed:\n{tail}")
