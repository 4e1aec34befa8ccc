"""Turns fresh namespaces into the node's own machine: mounts, then its first process.

The host's Python runs this once, as the first process of new mount, network, PID, IPC and UTS
namespaces; nothing but its standard library is there. It joins the node's control groups, starts
itself again where these are the roots of all, and mounts what ends with the namespace. Argument: a
JSON file with ``cgroups`` (hierarchies: how to join, how to mount), ``root`` (a Debian, never
written to), ``merged``, ``upper`` and ``work`` (the layer above it), ``binds`` (source, target,
whether it may be written), ``processors`` and ``memory_mib`` (what the kubelet is to find),
``hostname`` and ``init`` (the command that takes over).
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path


def mount(*arguments: str) -> None:
    """One call of the host's ``mount``."""
    subprocess.run(["mount", *arguments], check=True)


def layer(spec: dict) -> Path:
    """The Debian with a layer above it that takes what is written."""
    merged = Path(spec["merged"])
    options = f"lowerdir={spec['root']},upperdir={spec['upper']},workdir={spec['work']}"
    mount("-t", "overlay", "overlay", "-o", options, str(merged))
    return merged


# What a kubelet wants of the kernel it runs on, and would otherwise set: pkg/kubelet/cm,
# setupKernelTunables. It finds these values and is content; the machine keeps its own.
WANTED = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

# What else below /proc is the whole machine's and can be written to; containers, too, get most of
# it read-only (pkg/oci of containerd, WithDefaultPathMasks).
OTHER_SETTINGS = ("acpi", "bus", "fs", "irq", "mtrr", "scsi", "sysrq-trigger")


def kernel(merged: Path) -> None:
    """Views of the kernel: processes and interfaces of these namespaces, the host's devices."""
    mount("-t", "proc", "proc", str(merged / "proc"))
    # Kernel settings belong to the whole machine: only those of the own network may be written.
    settings = merged / "proc" / "sys"
    mount("--bind", str(settings), str(settings))
    network = settings / "net"
    mount("--bind", str(network), str(network))
    mount("-o", "remount,bind,ro", str(settings))
    for name in OTHER_SETTINGS:
        if (merged / "proc" / name).exists():
            bind(merged, str(merged / "proc" / name), f"proc/{name}", writable=False)
    for folder in ("run", "tmp"):
        mount("-t", "tmpfs", "tmpfs", str(merged / folder))
    for name, value in WANTED.items():
        if (settings / name).exists():
            pretend(merged, settings / name, f"{value}\n")
    mount("-t", "sysfs", "sysfs", str(merged / "sys"))
    mount("--rbind", "/dev", str(merged / "dev"))


def pretend(merged: Path, place: Path, text: str) -> None:
    """Another content for a file of the kernel's."""
    file = merged / "run" / place.name
    file.write_text(text)
    mount("--bind", str(file), str(place))


def hardware(merged: Path, processors: int, memory_mib: int) -> None:
    """The processors and the memory of another machine, where cAdvisor looks for them.

    Its ``utils/sysinfo`` counts ``cpu*`` below ``/sys/devices/system`` once there are no NUMA
    nodes, and ``machine`` reads ``MemTotal``.
    """
    system = merged / "sys" / "devices" / "system"
    for name in ("cpu", "node"):
        if (system / name).is_dir():
            mount("-t", "tmpfs", "tmpfs", str(system / name))
    for number in range(processors):
        topology = system / "cpu" / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number}\n")
        (topology / "physical_package_id").write_text("0\n")
    (system / "cpu" / "online").write_text(f"0-{processors - 1}\n")
    kib = memory_mib * 1024
    memory = {"MemTotal": kib, "MemFree": kib, "MemAvailable": kib, "SwapTotal": 0, "SwapFree": 0}
    lines = [f"{name}: {value} kB\n" for name, value in memory.items()]
    pretend(merged, merged / "proc" / "meminfo", "".join(lines))


def bind(merged: Path, source: str, target: str, writable: bool) -> None:
    """A file or folder of the host at a place of the node."""
    place = merged / target.lstrip("/")
    if Path(source).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.touch()
    mount("--bind", source, str(place))
    if not writable:
        mount("-o", "remount,bind,ro", str(place))


def enter_groups(hierarchies: list) -> None:
    """Join the node's groups, and come back where these are the roots of all."""
    for hierarchy in hierarchies:
        Path(hierarchy["join"]).write_text("0")
    again = [sys.executable, "-I", "-S", *sys.argv, "inside"]
    os.execvp("unshare", ["unshare", "--cgroup", *again])


def mount_group(merged: Path, hierarchy: dict) -> None:
    """The node's own part of a hierarchy, at the place where the host has the whole."""
    top, place = merged / "sys/fs/cgroup", merged / hierarchy["place"].lstrip("/")
    if place != top and not os.path.ismount(top):
        mount("-t", "tmpfs", "tmpfs", str(top))
    place.mkdir(parents=True, exist_ok=True)
    options = ["-o", hierarchy["options"]] if hierarchy["options"] else []
    mount("-t", hierarchy["kind"], *options, "cgroup", str(place))
    if hierarchy["kind"] == "cgroup2":
        # In version 2 a group has processes or gives controllers to others, never both.
        (place / "system").mkdir(exist_ok=True)
        (place / "system" / "cgroup.procs").write_text("0")
        for controller in (place / "cgroup.controllers").read_text().split():
            (place / "cgroup.subtree_control").write_text(f"+{controller}")


def pivot(merged: Path) -> None:
    """Leave the host's files behind for good."""
    old = merged / "mnt"
    os.chdir(merged)
    subprocess.run(["pivot_root", ".", str(old.relative_to(merged))], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)


def main() -> None:
    """Mount everything, and hand over."""
    spec = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if len(sys.argv) == 2:
        enter_groups(spec["cgroups"])
    mount("--make-rprivate", "/")
    merged = layer(spec)
    kernel(merged)
    for hierarchy in spec["cgroups"]:
        mount_group(merged, hierarchy)
    hardware(merged, spec["processors"], spec["memory_mib"])
    # What lies on it, groups and processors, are mounts of their own.
    mount("-o", "remount,bind,ro", str(merged / "sys"))
    for source, target, writable in spec["binds"]:
        bind(merged, source, target, writable)
    socket.sethostname(spec["hostname"])
    pivot(merged)
    os.execv(spec["init"][0], spec["init"])


if __name__ == "__main__":
    main()
