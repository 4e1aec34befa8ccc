"""The node's root file system: a small Debian, made once for all checkouts and never written to."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import Cache

SUITE: Final = "bookworm"
PACKAGES: Final = (
    "bash",
    "ca-certificates",
    "coreutils",
    "iproute2",
    "ipset",
    "iptables",
    "python3",
    "python3-yaml",
    "runc",
)
"""What the node runs that is no tool of ours, and what its images are made from. runc is the
distribution's: it needs a C compiler and libseccomp, which no machine of a user has to have."""
_PRUNED: Final = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")


def debian_place(cache: Cache) -> Path:
    """Where the root is once it is made; absent until then."""
    key = hashlib.sha256(" ".join((SUITE, *PACKAGES)).encode()).hexdigest()[:12]
    return cache.root / "roots" / f"node-{SUITE}-{key}"


def debian(cache: Cache, report: Callable[[str], None]) -> Path:
    """The root, made in about a minute unless it is there.

    Raises:
        OperationError: the packages could not be had; has debootstrap's last lines.
    """
    place = debian_place(cache)
    with cache.lock(place.name, lambda: None):
        if not place.exists():
            report(f"making a Debian {SUITE} for the node, once on this machine")
            scratch = cache.scratch(place.name)
            _install(scratch / "root")
            place.parent.mkdir(parents=True, exist_ok=True)
            (scratch / "root").rename(place)
            scratch.rmdir()
    return place


def _install(root: Path) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE]
    done = subprocess.run(
        [*command, str(root), *_mirror()], capture_output=True, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-8:])
        raise OperationError(
            f"a Debian {SUITE} in {root}",
            reason=f"debootstrap ended with {done.returncode}:\n{tail}",
            remedy="check the network and the package sources of this machine",
        )
    for path in _PRUNED:
        shutil.rmtree(root / path, ignore_errors=True)


def _mirror() -> list[str]:
    """Where this machine gets that suite from; debootstrap's own default on other systems."""
    asked = [
        *("apt-get", "indextargets", "--format", "$(REPO_URI)"),
        *(f"Release: {SUITE}", "Created-By: Packages"),
    ]
    if shutil.which("apt-get") is None:
        return []
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return said[:1]
