"""containerd and nvidia-ctk, built from their own published modules: the real programs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tokenworks.files import exclusive
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.golang import find_go

MODULES: Final = Path(__file__).parent / "go"
_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
# (package, needs a C compiler, build tags); without the tags containerd needs btrfs's headers.
_PROGRAMS: Final = {
    "containerd": ("github.com/containerd/containerd/v2/cmd/containerd", False, "no_btrfs,no_zfs"),
    "nvidia-ctk": ("github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk", True, "netgo"),
}
_VARIABLES: Final = {
    "containerd": "github.com/containerd/containerd/v2/version.Version",
    "nvidia-ctk": "github.com/NVIDIA/nvidia-container-toolkit/internal/info.version",
}


def module_version(name: str) -> str:
    """Return the version of a program's module, without the v."""
    module = _PROGRAMS[name][0].split("/cmd/")[0]
    lines = (MODULES / name / "go.mod").read_text().splitlines()
    return next(line.split(" v")[1] for line in lines if line.startswith(f"require {module} "))


def program(name: str) -> Path:
    """Return a built program, from the cache unless its module or this file changed."""
    package, needs_c, tags = _PROGRAMS[name]
    go, because = find_go(os.environ)
    if go is None or (needs_c and shutil.which("gcc") is None):
        lacking = because if go is None else "gcc is missing"
        pytest.skip(f"{name} cannot be built, so hosts were NOT tested against it: {lacking}")
    how = repr((_PROGRAMS[name], _FLAGS, _VARIABLES[name])).encode()
    parts = [how, (MODULES / name / "go.sum").read_bytes()]
    key = hashlib.sha256(b"".join(parts)).hexdigest()[:12]
    folder = Cache.of(os.environ).root / "test-tools"
    place = folder / f"{name}-{key}"
    with exclusive(folder):
        if not place.exists():
            unfinished = place.with_suffix(".part")
            flags = [*_FLAGS[:-1], f"{_FLAGS[-1]} -X {_VARIABLES[name]}={module_version(name)}"]
            subprocess.run(
                [go.path, "build", *flags, "-tags", tags, "-o", unfinished, package],
                cwd=MODULES / name,
                env={**os.environ, "CGO_ENABLED": str(int(needs_c)), "GOFLAGS": ""},
                check=True,
                capture_output=True,
            )
            unfinished.replace(place)
    return place
