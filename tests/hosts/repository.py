"""Real apt repositories, small ones: real .deb files, real indices, a real signature.

Packages have the names, versions and dependency lines of real ones and hold next to nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

TOOLS = ("dpkg-deb", "gpg", "gpgv")
EPOCH = "1764460800"
DRIVER = "580.159.04"
NEW_DRIVER = "595.91.07"
KERNEL = "6.8.0-87-generic"
TOOLKIT = "1.20.0"
UBUNTU = "6.8.0-87.88"


@dataclass(frozen=True, kw_only=True)
class Deb:
    """One package to be built."""

    name: str
    version: str
    depends: str = ""
    provides: str = ""
    conflicts: str = ""
    tree: Path | None = None
    """A folder with what it installs, scripts of its own in ``DEBIAN``."""

    @property
    def control(self) -> str:
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "Tests <tests@example.invalid>",
            "Depends": self.depends,
            "Provides": self.provides,
            "Conflicts": self.conflicts,
            "Description": "stand-in for tests",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def driver_580(version: str = DRIVER, revision: str = "1ubuntu1") -> list[Deb]:
    """The compute-only driver of NVIDIA's archive before the change of names."""
    full = f"{version}-{revision}"
    same = f"(= {full})"
    return [
        Deb(name="libnvidia-compute-580", version=full, depends="libc6 (>= 2.17)"),
        Deb(name="libnvidia-cfg1-580", version=full, provides=f"libnvidia-cfg1 {same}"),
        Deb(name="nvidia-utils-580", version=full, depends=f"libnvidia-compute-580 {same}, libc6"),
        Deb(
            name="nvidia-dkms-580-open",
            version=full,
            depends=f"dkms, nvidia-kernel-common-580 {same}, nvidia-kernel-source-580-open {same}",
            conflicts="nvidia-dkms-580",
        ),
        Deb(name="nvidia-dkms-580", version=full, conflicts="nvidia-dkms-580-open"),
        Deb(
            name="nvidia-kernel-common-580",
            version=full,
            depends=f"nvidia-firmware-580 {same} | nvidia-firmware-580-{version}, nvidia-modprobe",
        ),
        Deb(name=f"nvidia-firmware-580-{version}", version=full),
        Deb(name="nvidia-kernel-source-580-open", version=full),
        Deb(name="nvidia-modprobe", version=full),
        Deb(name="nvidia-persistenced", version=full, depends="libnvidia-cfg1 (>= 580), adduser"),
        Deb(name="nvidia-fabricmanager", version=full),
        Deb(name="libnvidia-nscq", version=full),
    ]


def driver_590(version: str = NEW_DRIVER) -> list[Deb]:
    """The compute-only driver of NVIDIA's archive after it."""
    full = f"{version}-1ubuntu1"
    same = f"(= {full})"
    return [
        Deb(
            name="libnvidia-compute",
            version=full,
            depends=f"libnvidia-gpucomp {same}",
            conflicts="libnvidia-compute-580, nvidia-utils-580",
        ),
        Deb(name="libnvidia-gpucomp", version=full),
        Deb(name="libnvidia-cfg1", version=full),
        Deb(
            name="nvidia-dkms-open",
            version=full,
            depends=f"dkms, nvidia-kernel-common {same}, nvidia-kernel-source-open {same}",
        ),
        Deb(name="nvidia-kernel-common", version=full, depends=f"nvidia-firmware {same}"),
        Deb(name="nvidia-firmware", version=full),
        Deb(name="nvidia-kernel-source-open", version=full),
        Deb(name="nvidia-modprobe", version=full),
        Deb(name="nvidia-persistenced", version=full, depends=f"libnvidia-cfg1 {same}"),
        Deb(name="nvidia-fabricmanager", version=full),
        Deb(name="libnvidia-nscq", version=full),
    ]


def canonical(version: str = DRIVER, kernel: str = KERNEL) -> list[Deb]:
    """Canonical's compute-only driver with modules that come built and signed for one kernel.

    Names and dependencies as packages.ubuntu.com has them for noble.
    """
    full, branch = f"{version}-0ubuntu0.24.04.1", version.split(".", 1)[0]
    server = f"{branch}-server"
    common = f"nvidia-kernel-common-{server}"
    return [
        Deb(
            name=f"nvidia-headless-no-dkms-{server}-open",
            version=full,
            depends=f"libnvidia-cfg1-{server}, libnvidia-compute-{server}, {common}, "
            f"nvidia-compute-utils-{server}, nvidia-kernel-source-{server}-open",
        ),
        Deb(
            name=f"nvidia-headless-{server}-open",
            version=full,
            depends=f"nvidia-dkms-{server}-open, nvidia-headless-no-dkms-{server}-open",
        ),
        Deb(name=f"nvidia-dkms-{server}-open", version=full, depends="dkms"),
        Deb(name=f"libnvidia-cfg1-{server}", version=full),
        Deb(name=f"libnvidia-compute-{server}", version=full, depends=f"{common}-{version}"),
        Deb(name=common, version=full, provides=f"{common}-{version}"),
        Deb(name=f"nvidia-compute-utils-{server}", version=full),
        Deb(name=f"nvidia-kernel-source-{server}-open", version=full),
        Deb(
            name=f"nvidia-utils-{server}",
            version=full,
            depends=f"libnvidia-compute-{server} (>= {version})",
        ),
        Deb(name=f"nvidia-fabricmanager-{branch}", version=full),
        Deb(name=f"libnvidia-nscq-{branch}", version=full),
        Deb(
            name=f"linux-modules-nvidia-{server}-open-{kernel}",
            version=UBUNTU,
            depends=f"linux-image-{kernel}, linux-signatures-nvidia-{kernel} (= {UBUNTU}), "
            f"{common} (>= {version})",
        ),
        Deb(name=f"linux-signatures-nvidia-{kernel}", version=UBUNTU),
    ]


def toolkit(version: str = TOOLKIT) -> list[Deb]:
    """The container toolkit's four packages."""
    full = f"{version}-1"
    return [
        Deb(
            name="nvidia-container-toolkit",
            version=full,
            depends=f"nvidia-container-toolkit-base (= {full}), "
            f"libnvidia-container-tools (= {full})",
        ),
        Deb(name="nvidia-container-toolkit-base", version=full),
        Deb(
            name="libnvidia-container-tools",
            version=full,
            depends=f"libnvidia-container1 (>= {full})",
        ),
        Deb(name="libnvidia-container1", version=full),
    ]


def distribution(kernel: str = KERNEL, version: str = UBUNTU) -> list[Deb]:
    """Kernel, headers, compiler and containerd of the distribution."""
    base = kernel.removesuffix("-generic")
    return [
        Deb(
            name=f"linux-image-{kernel}",
            version=version,
            depends=f"kmod, linux-modules-{kernel}",
        ),
        Deb(name=f"linux-modules-{kernel}", version=version),
        Deb(name=f"linux-headers-{kernel}", version=version, depends=f"linux-headers-{base}"),
        Deb(name=f"linux-headers-{base}", version=version, depends="coreutils"),
        Deb(name="linux-headers-generic", version=version, depends=f"linux-headers-{kernel}"),
        Deb(name="gcc-13", version="13.3.0-6ubuntu2", depends="cpp-13 (= 13.3.0-6ubuntu2), libc6"),
        Deb(name="cpp-13", version="13.3.0-6ubuntu2"),
        Deb(name="dkms", version="3.0.11-1ubuntu13", depends="gcc-13 | c-compiler, make"),
        Deb(name="containerd", version="2.2.1-0ubuntu1", depends="runc (>= 1.2)"),
        Deb(name="runc", version="1.3.3-0ubuntu1"),
        Deb(name="nfs-common", version="1:2.6.4-3ubuntu5", depends="rpcbind"),
    ]


class Signer:
    """A key of its own, and signatures by it."""

    def __init__(self, home: Path) -> None:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"no apt repository can be made here: missing {', '.join(missing)}")
        home.mkdir(mode=0o700)
        self._home = home
        identity = f"{home.name} <{home.name}@example.invalid>"
        self._gpg("--quick-generate-key", identity, "ed25519", "sign", "never")
        listed = self._gpg("--list-keys", "--with-colons").decode()
        self.fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")
        )
        self.armoured = self._gpg("--armor", "--export", self.fingerprint)

    def inline(self, text: str) -> bytes:
        return self._gpg("--clearsign", given=text.encode())

    def detached(self, text: str) -> bytes:
        return self._gpg("--armor", "--detach-sign", given=text.encode())

    def end(self) -> None:
        """End the agent that GnuPG started for this key."""
        subprocess.run(
            ["gpgconf", "--homedir", str(self._home), "--kill", "all"],  # noqa: S607
            check=False,
            capture_output=True,
        )

    def _gpg(self, *arguments: str, given: bytes = b"") -> bytes:
        options = ("--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
        return subprocess.run(
            ["gpg", "--homedir", str(self._home), *options, *arguments],  # noqa: S607
            input=given,
            capture_output=True,
            check=True,
        ).stdout


def build(folder: Path, debs: Iterable[Deb]) -> str:
    """Build packages into a folder's ``pool`` and return their ``Packages`` index."""
    paragraphs = []
    for deb in debs:
        root = folder / "build" / f"{deb.name}_{deb.version}"
        if deb.tree is not None:
            shutil.copytree(deb.tree, root, symlinks=True)
        (root / "DEBIAN").mkdir(parents=True, exist_ok=True)
        (root / "DEBIAN" / "control").write_text(deb.control)
        file = folder / "pool" / f"{deb.name}_{deb.version.replace(':', '%3a')}_amd64.deb"
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root), str(file)],  # noqa: S607
            check=True,
            capture_output=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        )
        content = file.read_bytes()
        paragraphs.append(
            f"{deb.control}Filename: pool/{file.name}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    shutil.rmtree(folder / "build", ignore_errors=True)
    return "\n".join(paragraphs)


def publish(folder: Path, debs: Iterable[Deb], signer: Signer, *, suite: str | None = None) -> None:
    """Make a folder an apt repository: with a suite and the component main, or flat."""
    index = build(folder, debs).encode()
    place = folder / "dists" / suite if suite else folder
    below = "main/binary-amd64/" if suite else ""
    (place / below).mkdir(parents=True, exist_ok=True)
    files = {f"{below}Packages": index, f"{below}Packages.gz": gzip.compress(index, mtime=0)}
    for name, content in files.items():
        (place / name).write_bytes(content)
    sums = "".join(
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        for name, content in files.items()
    )
    release = f"Origin: tests\nSuite: {suite or 'flat'}\nArchitectures: amd64\nSHA256:\n{sums}"
    (place / "InRelease").write_bytes(signer.inline(release))


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve a folder over HTTP on loopback, on the port that is given."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
        """Say nothing."""


def request(folder: Path, signer: Signer, **changed: Any) -> dict[str, Any]:
    """A request for a lock from the repositories below a folder: cuda, toolkit, ubuntu."""

    def repository(name: str, parts: list[str], suite: str = "./") -> dict[str, Any]:
        return {
            "name": name,
            "uri": f"file://{folder / name}",
            "suite": suite,
            "components": [] if suite.endswith("/") else ["main"],
            "key_file": "tests.asc",
            "key_fingerprint": signer.fingerprint,
            "parts": parts,
        }

    fields: dict[str, Any] = {
        "os": "ubuntu-24.04",
        "architecture": "amd64",
        "kernel": KERNEL,
        "compiler": "gcc-13",
        "driver": {"version": DRIVER, "modules": "open", "archive": "cuda"},
        "toolkit_version": TOOLKIT,
        "containerd": {"package": "containerd", "version": "2.2.1-0ubuntu1"},
        "repositories": [
            repository("cuda", ["driver", "fabric_manager"]),
            repository("toolkit", ["toolkit"]),
            repository("ubuntu", ["kernel", "headers", "compiler", "containerd", "other"], "noble"),
        ],
    }
    return fields | changed
