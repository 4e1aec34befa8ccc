"""The packages that machines install: real names, versions and dependency lines, stand-ins inside.

The driver is a kernel module that dkms builds on the machine; containerd is the real one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.ansible import gotools
from tests.ansible.debs import SMI_SINCE_590, Files, loaded
from tests.hosts import repository
from tests.hosts.repository import Deb, Signer
from tokenworks.hosts.names import RENAMED_AT

OLD, NEWER, NEXT_BRANCH = "580.126.20", "580.159.04", "595.91.07"
TOOLKIT: Final = repository.TOOLKIT
OTHER_TOOLKIT: Final = "1.19.1"
CONTAINERD: Final = f"{gotools.module_version('containerd')}-1"
HERE: Final = Path(__file__).parent
_UNITS: Final = "lib/systemd/system"


def driver(folder: Path, version: str) -> list[Deb]:
    """Return a driver under the names of its generation."""
    renamed = int(version.split(".", 1)[0]) >= RENAMED_AT
    packages = repository.driver_590(version) if renamed else repository.driver_580(version)
    kept = (deb for deb in packages if deb.name != "nvidia-dkms-580")
    return [_filled(folder, deb, version) for deb in kept]


def toolkit(folder: Path, version: str) -> list[Deb]:
    """Return the container toolkit's four packages."""
    files: Files = {
        "usr/bin/nvidia-ctk": _program(folder, "nvidia-ctk"),
        f"{_UNITS}/nvidia-cdi-refresh.service": _text("nvidia-cdi-refresh.service"),
        f"{_UNITS}/nvidia-cdi-refresh.path": _text("nvidia-cdi-refresh.path"),
    }
    script = f"systemctl enable nvidia-cdi-refresh.service\n{_start('nvidia-cdi-refresh.path')}"
    return [
        loaded(folder, deb, files, postinst=script)
        if deb.name == "nvidia-container-toolkit-base"
        else deb
        for deb in repository.toolkit(version)
    ]


def containerd(folder: Path) -> Deb:
    """Return the real containerd."""
    deb = Deb(name="containerd.io", version=CONTAINERD, conflicts="containerd, runc")
    files: Files = {
        "usr/bin/containerd": gotools.program("containerd"),
        f"{_UNITS}/containerd.service": _text("containerd.service"),
    }
    return loaded(folder, deb, files, postinst=_start("containerd.service"))


def everything(folder: Path) -> list[Deb]:
    """Return every version of every package that a machine may want."""
    drivers = [deb for version in (OLD, NEWER, NEXT_BRANCH) for deb in driver(folder, version)]
    toolkits = [deb for version in (TOOLKIT, OTHER_TOOLKIT) for deb in toolkit(folder, version)]
    return [*drivers, *toolkits, containerd(folder)]


def signed_again(archive: Path, place: Path, signer: Signer) -> None:
    """Make a folder the same archive as another, signed by another key."""
    place.mkdir()
    for name in ("pool", "Packages", "Packages.gz"):
        (place / name).symlink_to(archive / name)
    release = (archive / "InRelease").read_text()
    bare = re.sub(r"\A.*?\n\n|-----BEGIN PGP SIGNATURE.*", "", release, flags=re.DOTALL)
    (place / "InRelease").write_bytes(signer.inline(bare))


def _filled(folder: Path, deb: Deb, version: str) -> Deb:
    fill = next((fill for name, fill in _FILLS.items() if deb.name.startswith(name)), None)
    if fill is None:
        return deb
    files, scripts = fill(folder, version)
    if deb.name == SMI_SINCE_590:
        files = {**files, **_smi(folder, version)[0]}
    return loaded(folder, deb, files, **scripts)


_Filling = tuple[Files, dict[str, str]]


def _library(folder: Path, version: str) -> _Filling:
    return {f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": version}, {}


def _sources(folder: Path, version: str) -> _Filling:
    sources = sorted(file for file in (HERE / "driver").iterdir() if file.is_file())
    texts = {file.name: file.read_text().replace("@VERSION@", version) for file in sources}
    return {f"usr/src/nvidia-{version}/{name}": text for name, text in texts.items()}, {}


def _dkms(folder: Path, version: str) -> _Filling:
    # As debhelper's dh_dkms writes it.
    build = f"/usr/lib/dkms/common.postinst nvidia {version} '' '' ''"
    removal = f"dkms remove -m nvidia -v {version} --all || true"
    return {}, {"postinst": build, "prerm": removal}


def _smi(folder: Path, version: str) -> _Filling:
    return {"usr/bin/nvidia-smi": _program(folder, "nvidia-smi", version)}, {}


def _modprobe(folder: Path, version: str) -> _Filling:
    return {"usr/bin/nvidia-modprobe": _program(folder, "nvidia-modprobe")}, {}


def _persistenced(folder: Path, version: str) -> _Filling:
    unit = "nvidia-persistenced.service"
    program = _program(folder, "nvidia-persistenced")
    files: Files = {"usr/bin/nvidia-persistenced": program, f"{_UNITS}/{unit}": _text(unit)}
    return files, {"postinst": _start(unit)}


_FILLS: Final[dict[str, Callable[[Path, str], _Filling]]] = {
    "libnvidia-compute": _library,
    "nvidia-kernel-source": _sources,
    "nvidia-dkms": _dkms,
    "nvidia-utils": _smi,
    "nvidia-modprobe": _modprobe,
    "nvidia-persistenced": _persistenced,
}


def _text(name: str) -> str:
    return (HERE / "programs" / name).read_text()


def _program(folder: Path, name: str, version: str = "") -> Path:
    """Return a file with a program: a package's content that is a path is executable."""
    place = folder / "programs" / version / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_text(name).replace("@VERSION@", version))
    return place


def _start(unit: str) -> str:
    return f"systemctl daemon-reload\nsystemctl enable {unit}\nsystemctl start {unit} || true"
