"""What of this machine a node could leave behind, as it is at one moment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.node.harness import ENVIRONMENT
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node.layout import NodeLayout

GROUPS = ("tokenworks", "k8s.io", "kubepods")
"""Names that a node's control groups have, wherever they lie."""
FOLDERS = ("/dev/shm", "/etc", "/opt", "/run", "/var/lib")  # noqa: S108
"""Where the programs of a node keep things on a machine that is nothing but a node."""
SETTINGS = ("kernel", "net", "vm")
"""What a kubelet, kube-proxy or kube-router would set, below ``/proc/sys``."""
RESTLESS = {
    "kernel/hung_task_detect_count",
    "kernel/ns_last_pid",
    "kernel/perf_event_max_sample_rate",
    "kernel/pty/nr",
    "kernel/tainted",
    "net/netfilter/nf_conntrack_count",
}
"""What the kernel counts and lowers by itself; so is whatever ``kernel/random`` has."""
READ_BYTES = 2**16

Snapshot = dict[str, frozenset[str]]


def snapshot(checkout: Path) -> Snapshot:
    """Mounts, interfaces, control groups, files and the kernel's settings with their values.

    What other tests mount below the folder for temporary files at the same time is theirs, and so
    are the groups of environments of other checkouts.
    """
    identity = NodeLayout(Layout.of(ENVIRONMENT, checkout)).identity
    return {
        "mounts": frozenset(_mounts(checkout)),
        "interfaces": frozenset(each.name for each in Path("/sys/class/net").iterdir()),
        "groups": frozenset(
            str(group)
            for name in GROUPS
            for depth in ("*", "*/*", "*/*/*")
            for group in Path("/sys/fs/cgroup").glob(f"{depth}{name}*")
            if not _is_of_others(group, identity)
        ),
        "files": frozenset((*_files(), *_temporary_files(checkout))),
        "settings": frozenset(_settings()),
    }


def left(before: Snapshot, after: Snapshot) -> Snapshot:
    """What is there afterwards and was not before.

    The kernel keeps the modules that somebody needed, which bring settings of their own: only
    those that were there before can have been changed.
    """
    known = {_name(setting) for setting in before["settings"]}
    found = {kind: after[kind] - before[kind] for kind in before}
    settings = frozenset(one for one in found["settings"] if _name(one) in known)
    return {**found, "settings": settings}


def _name(setting: str) -> str:
    return setting.partition(" = ")[0]


def _mounts(checkout: Path) -> Iterator[str]:
    others = Path(tempfile.gettempdir())
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount = Path(line.split(" ")[4])
        if mount.is_relative_to(checkout) or not mount.is_relative_to(others):
            yield str(mount)


def _is_of_others(group: Path, identity: str) -> bool:
    """Whether another environment has it, or it is the place where those that run have theirs."""
    names = {one for one in group.parts if one.startswith("tokenworks-")}
    names |= {one.name for one in group.glob("tokenworks-*")}
    return bool(names) and identity not in names


def _files() -> Iterator[str]:
    for folder in FOLDERS:
        for depth in ("*", "*/*"):
            yield from (str(each) for each in Path(folder).glob(depth))


def _temporary_files(checkout: Path) -> Iterator[str]:
    """Files for a moment, where everybody has some: those that name this checkout are its own."""
    top = Path(tempfile.gettempdir())
    for file in (*top.glob("*"), *top.glob("*/*")):
        with suppress(OSError):
            if file.is_file() and str(checkout).encode() in _beginning(file):
                yield str(file)


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(READ_BYTES)


def _settings() -> Iterator[str]:
    top = Path("/proc/sys")
    for folder in SETTINGS:
        for file in (top / folder).rglob("*"):
            name = str(file.relative_to(top))
            if name in RESTLESS or name.startswith("kernel/random/"):
                continue
            # Some can only be written, and some are of protocols that this kernel lacks.
            with suppress(OSError, UnicodeDecodeError):
                if file.is_file():
                    yield f"{name} = {file.read_text().strip()}"
