"""Whether this machine can be a node, and all that it lacks, before anything is started."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tokenworks.local_node.cgroups import NEEDED, Cgroups

PROGRAMS: Final = {
    "mount": "mount",
    "umount": "mount",
    "unshare": "util-linux",
    "pivot_root": "util-linux",
    "chroot": "coreutils",
}
"""Programs of the system, and the Debian packages that bring them."""
CAPABILITIES: Final = {
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_ADMIN": 21,
    "CAP_MKNOD": 27,
}
"""Of root's rights those that containers usually lack; numbers of linux/capability.h."""
FILE_SYSTEMS: Final = ("overlay", "proc", "sysfs", "tmpfs")
FREE_GIB: Final = 4
"""The node of ``onenode``, its images and its Debian took 0.9 GiB (measured 2026-11-30); the rest
is for tools, logs and weights."""
MEMORY_GIB: Final = 3
"""Control plane, node and pods of ``onenode`` took 1.2 GiB (measured 2026-11-30); the rest
is for commands and caches."""

FEATURES: Final = {
    "bridges": "ip link add b0 type bridge",
    "pairs of interfaces": "ip link add v0 type veth peer name v1",
    "rules on bridged packets": "test -e /proc/sys/net/bridge/bridge-nf-call-iptables",
    "translated addresses": "iptables -w -t nat -A POSTROUTING -j MASQUERADE",
    "comments in rules": "iptables -w -A OUTPUT -m comment --comment a -j ACCEPT",
    "marks in rules": "iptables -w -A OUTPUT -m mark --mark 1 -j ACCEPT",
    "random choice in rules": "iptables -w -A OUTPUT -m statistic --mode random "
    "--probability 0.5 -j ACCEPT",
    "states of connections in rules": "iptables -w -A OUTPUT -m conntrack --ctstate NEW -j ACCEPT",
    "logs of rules": "iptables -w -A OUTPUT -j NFLOG",
    "sets of addresses": "ipset create s hash:ip && "
    "iptables -w -A OUTPUT -m set --match-set s src -j ACCEPT",
}
"""What kube-proxy, kube-router and the CNI plugins ask of the kernel, and a trial of each."""
KERNEL_REMEDIES: Final = {
    "rules on bridged packets": "load it with modprobe br_netfilter",
}
"""What to do about a feature that many kernels have and load for nobody who does not ask."""
_ALONE: Final = ("unshare", "--mount", "--net", "--pid", "--fork")
_UNTOUCHED: Final = """\
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" &&
mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/run" && exec chroot "$1" sh -c "$2"
"""
"""Runs a script in a root that it cannot write to; locks of iptables lie below ``/run``."""
_LAYER: Final = """\
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged &&
rm merged/removed && touch merged/made && test ! -e merged/removed && test -e upper/made
"""
"""A layer that takes what is written, and that something below is gone."""
_APART: Final = ("unshare", "--mount", "sh", "-c", _LAYER)


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What was seen of this machine."""

    system: str
    is_root: bool
    capabilities: int
    missing_programs: frozenset[str]
    file_systems: frozenset[str]
    layers: str
    """Why nothing can be mounted as a layer in ``.tokenworks``, or nothing where it can."""
    cgroups: str
    """Why no control group can be made, or nothing where one can."""
    missing_controllers: frozenset[str]
    """What cannot be limited in a group that was made."""
    has_node: bool
    """The node's files are there: what they take of the disk is not free any more."""
    free_gib: float
    memory_gib: float
    can_make_debian: bool
    """A root file system is in the cache, or debootstrap can make one."""


@dataclass(frozen=True, kw_only=True)
class Lack:
    """One thing that a node needs and this machine does not have."""

    what: str
    remedy: str


def judge(probed: Probed) -> tuple[Lack, ...]:
    """All that the machine lacks; nothing where it can be a node."""
    if probed.system != "Linux":
        return (Lack(what=f"runs {probed.system}, not Linux", remedy="use a Linux machine"),)
    if not probed.is_root:
        return (Lack(what="this user is not root", remedy="run it as root, or with sudo"),)
    return (*_rights(probed), *_parts(probed), *_room(probed))


def _rights(probed: Probed) -> Iterator[Lack]:
    for name in _missing_rights(probed.capabilities):
        yield Lack(
            what=f"root lacks {name}", remedy="use a machine, or a container with that right"
        )
    if probed.cgroups:
        yield Lack(
            what=f"no control group can be made: {probed.cgroups}",
            remedy="mount /sys/fs/cgroup so that root may write to it",
        )
    if probed.missing_controllers:
        names = ", ".join(sorted(probed.missing_controllers))
        yield Lack(
            what=f"control groups cannot limit {names}",
            remedy="start the kernel without cgroup_disable, and in a container end what runs in "
            "the group at the top of its /sys/fs/cgroup",
        )


def _parts(probed: Probed) -> Iterator[Lack]:
    for name in sorted(probed.missing_programs):
        yield Lack(what=f"there is no {name}", remedy=f"apt-get install {PROGRAMS.get(name, name)}")
    for name in sorted(set(FILE_SYSTEMS) - probed.file_systems):
        yield Lack(
            what=f"the kernel has no {name} file system", remedy=f"load it with modprobe {name}"
        )
    if probed.layers and "overlay" in probed.file_systems:
        yield Lack(
            what=f"no overlay can be mounted in the checkout: {probed.layers}",
            remedy="put it on a volume, such as a disk of its own with ext4",
        )
    if not probed.can_make_debian:
        yield Lack(what="there is no debootstrap", remedy="apt-get install debootstrap")


def _room(probed: Probed) -> Iterator[Lack]:
    if probed.free_gib < FREE_GIB and not probed.has_node:
        yield Lack(
            what=f"{probed.free_gib:.1f} GiB are free on the disk",
            remedy=f"free {FREE_GIB} GiB there",
        )
    if probed.memory_gib < MEMORY_GIB:
        yield Lack(
            what=f"the machine has {probed.memory_gib:.1f} GiB of memory",
            remedy=f"use one with {MEMORY_GIB} GiB",
        )


def probe(folder: Path, *, memory_gib: float, can_make_debian: bool, has_node: bool) -> Probed:
    """What is so on this machine, for a node whose files lie in a folder that exists."""
    is_linux = platform.system() == "Linux"
    missing_programs = frozenset(name for name in PROGRAMS if shutil.which(name) is None)
    capabilities = _capabilities() if is_linux else 0
    # A trial that fails for want of these says nothing of what is tried.
    can_try = not missing_programs and not _missing_rights(capabilities)
    # The kernel loads the file system for who mounts it, so it is tried before one looks.
    layers = _try_layer(folder) if can_try else ""
    cgroups, controllers = _try_cgroups() if can_try else ("", frozenset(NEEDED))
    return Probed(
        system=platform.system(),
        is_root=os.geteuid() == 0,
        capabilities=capabilities,
        missing_programs=missing_programs,
        file_systems=_file_systems() if is_linux else frozenset(),
        layers=layers,
        cgroups=cgroups,
        missing_controllers=frozenset() if cgroups else frozenset(NEEDED) - controllers,
        has_node=has_node,
        free_gib=shutil.disk_usage(folder).free / 2**30,
        memory_gib=memory_gib,
        can_make_debian=can_make_debian,
    )


def _missing_rights(capabilities: int) -> tuple[str, ...]:
    return tuple(name for name, number in CAPABILITIES.items() if not capabilities >> number & 1)


def _capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))


def _file_systems() -> frozenset[str]:
    lines = Path("/proc/filesystems").read_text().splitlines()
    return frozenset(line.split()[-1] for line in lines if line.strip())


def _try_layer(folder: Path) -> str:
    """Why an overlay in a folder does not do what a node's needs, tried where nobody else sees."""
    try:
        with TemporaryDirectory(dir=folder, prefix=".layer-") as place:
            for name in ("lower", "upper", "work", "merged"):
                Path(place, name).mkdir()
            Path(place, "lower", "removed").touch()
            done = subprocess.run(
                _APART,
                cwd=place,
                capture_output=True,
                text=True,
                check=False,
            )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or ["it does not take what is written"])[0]


def _try_cgroups() -> tuple[str, frozenset[str]]:
    """Why no groups can be made, and else what one that was made can limit."""
    trial = Cgroups(f"tokenworks-trial-{os.getpid()}")
    try:
        trial.make()
        found = trial.controllers()
    except OSError as error:
        return str(error), frozenset()
    finally:
        with suppress(OSError):
            trial.remove()
    return "", found


def missing_features(debian: Path) -> tuple[str, ...]:
    """What the kernel cannot do that a node's network needs, tried in a network of its own.

    The programs are those of the node's Debian, so that nothing of the machine's is asked. The
    Debian is everybody's and is read-only for them.
    """
    trials = "\n".join(
        f"({command}) >/dev/null 2>&1 || echo '{name}'" for name, command in FEATURES.items()
    )
    done = subprocess.run(
        [*_ALONE, "sh", "-c", _UNTOUCHED, "sh", str(debian), trials],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip() or f"namespaces (unshare ended with {done.returncode})",)
    return tuple(done.stdout.splitlines())
