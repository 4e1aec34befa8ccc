"""Small real packages with the names, versions and dependency lines of real ones, that also act.

What they install is the least by which a host can be told: a module with a version, the management
library's file name, units, and programs of ``stand_in/machine.py``. containerd and nvidia-ctk are
the real ones.
"""

from __future__ import annotations

import dataclasses
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.ansible import gotools
from tests.hosts import repository
from tests.hosts.repository import Deb

KERNEL: Final = "6.1.0-41-amd64"
NEWER_KERNEL: Final = "6.1.0-44-amd64"
DRIVER, NEWER_DRIVER, NEW_BRANCH = "580.126.20", "580.159.04", "595.91.07"
OLD_TOOLKIT: Final = "1.19.1"
TOOLKIT: Final = gotools.module_version("nvidia-ctk")
CONTAINERD: Final = gotools.module_version("containerd")
SMI: Final = "usr/bin/nvidia-smi"
SMI_SINCE_590: Final = "libnvidia-compute"
"""Which stand-in brings nvidia-smi; of NVIDIA's own packages that is not known here."""
MACHINE: Final = "/usr/local/lib/stand-in/machine.py"

BESIDE: Final = {
    "binutils": "2.40-2",
    "libgcc-12-dev": "12.2.0-14+deb12u1",
    "make": "4.3-4.1",
    "patch": "2.7.6-7",
}
"""What the compiler and dkms need that a fresh system lacks and no lock names (Debian 12)."""
NEEDED_BY_DKMS: Final = "gcc-12, make | build-essential, patch"

Files = Mapping[str, "str | Path | bytes"]


def module(version: str) -> bytes:
    """Return the least ELF file from which modinfo reads a version."""
    names = b"\0.shstrtab\0.modinfo\0"
    info = f"version={version}\0license=Dual MIT/GPL\0name=nvidia\0".encode()
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01", 1, 62, 1, 0, 0, 64 + len(names) + len(info), 0, 64, 0, 0, 64, 3, 1,
    )  # fmt: skip
    sections = (
        (0, 0, 0, 0),
        (1, 3, 64, len(names)),
        (11, 1, 64 + len(names), len(info)),
    )
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)
        for name, kind, offset, size in sections
    )
    return header + names + info + table


def unit(name: str) -> dict[str, str | Path | bytes]:
    return {f"lib/systemd/system/{name}": f"[Unit]\nDescription={name}\n"}


def loaded(folder: Path, deb: Deb, files: Files, **scripts: str) -> Deb:
    """Return a package that installs files; a Path whose name is absolute becomes a link to it."""
    tree = folder / f"{deb.name}_{deb.version}"
    for name, content in files.items():
        place = tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            place.write_bytes(content)
        elif isinstance(content, str):
            place.write_text(content)
        elif content == Path(MACHINE):
            place.symlink_to(content)
        else:
            shutil.copy(content, place)
            place.chmod(0o755)
    for name, text in scripts.items():
        script = tree / "DEBIAN" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/sh\nset -e\n{text}\n")
        script.chmod(0o755)
    return dataclasses.replace(deb, tree=tree)


def kernel(folder: Path, release: str, version: str) -> list[Deb]:
    """Image and headers; the image is booted next unless the boot loader is told otherwise."""
    image = Deb(name=f"linux-image-{release}", version=version, depends="kmod")
    headers = Deb(name=f"linux-headers-{release}", version=version)
    return [
        loaded(
            folder,
            image,
            {
                f"boot/vmlinuz-{release}": release,
                f"lib/modules/{release}/modules.builtin": "",
                f"lib/modules/{release}/modules.order": "",
            },
            postinst=f"update-initramfs -c -k {release}\nupdate-grub",
        ),
        loaded(folder, headers, {f"lib/modules/{release}/build/Makefile": ""}),
    ]


def driver(folder: Path, version: str) -> list[Deb]:
    """A driver under the names of its generation."""
    renamed = int(version.split(".", 1)[0]) >= 590
    packages = repository.driver_590(version) if renamed else repository.driver_580(version)
    return [_acting(folder, deb, version) for deb in packages]


def _acting(folder: Path, deb: Deb, version: str) -> Deb:
    """The package with what it installs, by the part of its name that says what it is."""
    program = Path(MACHINE)
    library: dict[str, str | Path | bytes] = {
        f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": version
    }
    contents: dict[str, Files] = {
        "libnvidia-compute": library | ({} if "-580" in deb.name else {SMI: program}),
        "nvidia-kernel-source": {f"usr/src/nvidia-{version}/nvidia.ko": module(version)},
        "nvidia-utils": {SMI: program},
        "nvidia-modprobe": {"usr/bin/nvidia-modprobe": program},
        "nvidia-persistenced": unit("nvidia-persistenced.service"),
        "nvidia-fabricmanager": unit("nvidia-fabricmanager.service"),
        "nvidia-dkms": {},
    }
    kind = next((name for name in contents if deb.name.startswith(name)), None)
    if kind is None:
        return deb
    # The real script builds for the running kernel, and lets the package be without headers.
    build = "/usr/sbin/dkms autoinstall -k $(cat /proc/sys/kernel/osrelease) || true"
    gone = f"/usr/local/lib/stand-in/dkms-remove {version}"
    scripts = {"postinst": build, "prerm": gone} if kind == "nvidia-dkms" else {}
    return loaded(folder, deb, contents[kind], **scripts)


def toolkit(folder: Path, version: str = TOOLKIT) -> list[Deb]:
    """The four packages, with the real nvidia-ctk."""
    units = unit("nvidia-cdi-refresh.service") | unit("nvidia-cdi-refresh.path")
    real: Files = {"usr/bin/nvidia-ctk": gotools.program("nvidia-ctk"), **units}
    return [
        loaded(folder, deb, real) if deb.name == "nvidia-container-toolkit-base" else deb
        for deb in repository.toolkit(version)
    ]


def others(folder: Path) -> list[Deb]:
    """Compiler, dkms and containerd, which is the real one."""
    scripts = {"postinst": "systemctl daemon-reload\nsystemctl restart containerd.service"}
    containerd = Deb(name="containerd.io", version=f"{CONTAINERD}-1", conflicts="containerd, runc")
    real: Files = {
        "usr/bin/containerd": gotools.program("containerd"),
        **unit("containerd.service"),
    }
    return [
        Deb(
            name="gcc-12", version="12.2.0-14+deb12u1", depends="binutils (>= 2.38), libgcc-12-dev"
        ),
        *(Deb(name=name, version=version) for name, version in BESIDE.items()),
        loaded(
            folder,
            Deb(name="dkms", version="3.0.10-8+deb12u1", depends=NEEDED_BY_DKMS),
            {"usr/sbin/dkms": Path(MACHINE)},
        ),
        loaded(folder, containerd, real, **scripts),
    ]


def everything(folder: Path) -> list[Deb]:
    """Every package of every version that a test may want."""
    return [
        *kernel(folder, KERNEL, "6.1.158-1"),
        *kernel(folder, NEWER_KERNEL, "6.1.164-1"),
        *(deb for version in (DRIVER, NEWER_DRIVER, NEW_BRANCH) for deb in driver(folder, version)),
        *toolkit(folder),
        *toolkit(folder, OLD_TOOLKIT),
        *others(folder),
    ]
