"""A run that changes nothing, on many hosts: ours against ordinary roles at Ansible's own defaults.

The hosts are folders that Ansible enters by chroot, all as locked, with real apt, dpkg and
containerd. ``ordinary_roles.yml`` asks for the same packages, files, units and programs, each kind
by a task of its own, with lists where Ansible's module takes one, with facts, 5 forks and no
pipelining. Both run in turn on the same hosts, so what is printed are ratios of one run. There is
no SSH in it, which favours the ordinary roles: over a network they pay for each round trip.

usage: python -m benchmarks.hosts [HOSTS ...]      as root      (default: 5 10 20)

Exit status: 0 the goals are met, 1 one is missed, 3 nothing could be measured here.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console
from rich.table import Table

from tests.ansible import debs, roots, world
from tests.ansible.world import Archive, Machine
from tests.hosts import repository
from tests.hosts.repository import Signer
from tokenworks.hosts.changes import wanted_packages
from tokenworks.hosts.files import host_files
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState

SIZES: Final = (5, 10, 20)
ROUNDS: Final = 3
LIMIT_SECONDS: Final = 600
"""For one run; whatever takes longer is hung."""
GOAL_RATIO: Final = 1 / 3
GOAL_GROWTH: Final = 1.25
"""Twice the hosts may take this share more than twice the time that the first ones took."""
ORDINARY: Final = Path(__file__).parent / "ordinary_roles.yml"
OURS: Final = world.ROOT / "ansible" / "prepare.yml"
OUR_CONFIGURATION: Final = world.ROOT / "ansible" / "ansible.cfg"
UNITS: Final = (
    "nvidia-persistenced.service",
    "nvidia-cdi-refresh.path",
    "tokenworks-cdi.timer",
    "tokenworks-gpu-devices.service",
    "tokenworks-gate.service",
)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Hosts as locked, and what both sides are told of them."""

    folder: Path
    hosts: tuple[Path, ...]
    told: dict[str, Any]

    def inventory(self, count: int) -> Path:
        """Return an inventory of some of them."""
        file = self.folder / f"hosts-{count}.json"
        hosts = {f"gpu-{i}": {"ansible_host": str(h)} for i, h in enumerate(self.hosts[:count])}
        file.write_text(json.dumps({"all": {"hosts": hosts, "vars": self.told}}))
        return file


@contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    """Prepare one host by our own playbook, and give as many copies as asked for."""
    roots.require_root()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-hosts-")))
        bare = roots.unpacked(folder)
        archive = stack.enter_context(_archive(folder))
        lock = archive.lock()
        with roots.layer(str(bare), folder / "first") as root:
            first = world.furnish(root)
            _install_apt_module(first)
            ran = world.play("prepare.yml", {"gpu-0": first}, lock, archive, folder / "run")
            if ran.status != 0:
                raise SystemExit(f"the hosts cannot be prepared: {ran.message}{ran.output}")
            told = _told(first, lock, archive)
        lower = f"{folder / 'first' / 'upper'}:{bare}"
        layers = (roots.layer(lower, folder / f"host-{number}") for number in range(count))
        hosts = tuple(stack.enter_context(layer) for layer in layers)
        yield Fleet(folder=folder, hosts=hosts, told=told)


@contextmanager
def _archive(folder: Path) -> Iterator[Archive]:
    signer = Signer(folder / "vendor")
    repository.publish(folder / "archive", debs.everything(folder / "trees"), signer)
    with repository.served(folder / "archive") as port:
        yield Archive(
            folder=folder / "archive",
            uri=f"http://127.0.0.1:{port}/",
            fingerprint=signer.fingerprint,
            armoured=signer.armoured.decode(),
        )
    signer.end()


def _install_apt_module(host: Machine) -> None:
    """Install what Ansible's own apt module needs on a host; ours needs nothing but Python."""
    resolver = Path("/etc/resolv.conf").read_text()
    host.write("/etc/resolv.conf", resolver)
    host.write("/etc/apt/sources.list", roots.source())
    host.run("apt-get", "--quiet", "update")
    host.apt("python3-apt")
    host.write("/etc/apt/sources.list", "")


def _told(host: Machine, lock: HostLock, archive: Archive) -> dict[str, Any]:
    settings = HostSettings(expected_gpus=world.GPUS)
    keys = {"tests.asc": archive.armoured}
    files = host_files(lock, settings, keys)
    state = HostState.model_construct(nvswitches=0)
    return {
        "ansible_connection": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "host_lock": lock.model_dump(mode="json"),
        "host_settings": settings.model_dump(mode="json"),
        "host_keys": keys,
        "host_kubeconfig": "",
        "packages": wanted_packages(state, lock),
        "files": [{"path": f.path, "text": host.text(f.path), "mode": f.mode} for f in files],
        "units": UNITS,
        "driver": lock.driver.version,
        "kernel": lock.kernel,
    }


def seconds(hosts: Fleet, count: int, playbook: Path, configuration: Path) -> float:
    """Run a playbook on some hosts; return how long it took. It must change nothing."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(world.ROOT),
        "HOME": str(hosts.folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(configuration),
        "ANSIBLE_CONNECTION_PLUGINS": str(world.HERE / "plugins" / "connection"),
    }
    command = ["ansible-playbook", "-i", str(hosts.inventory(count)), str(playbook)]
    before = time.perf_counter()
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=hosts.folder,
        timeout=LIMIT_SECONDS,
    )
    took = time.perf_counter() - before
    good = re.findall(r"changed=0 +unreachable=0 +failed=0", done.stdout)
    if done.returncode != 0 or len(good) != count:
        raise SystemExit(f"{playbook.name} changed or failed:\n{done.stdout[-3000:]}{done.stderr}")
    return took


def measure(hosts: Fleet, count: int) -> tuple[float, float]:
    """Return the median seconds of our runs and those of an ordinary one between them."""
    defaults = hosts.folder / "defaults.cfg"
    defaults.write_text("[defaults]\n")
    ours = [seconds(hosts, count, OURS, OUR_CONFIGURATION)]
    ordinary = seconds(hosts, count, ORDINARY, defaults)
    ours += [seconds(hosts, count, OURS, OUR_CONFIGURATION) for _ in range(ROUNDS - 1)]
    return statistics.median(ours), ordinary


def missed(measured: dict[int, tuple[float, float]]) -> list[str]:
    """Return the goals that were not met: a third of the time, and linear in hosts."""
    most = max(measured)
    told = []
    ours, ordinary = measured[most]
    if ours > GOAL_RATIO * ordinary:
        told.append(f"{most} hosts took {ours / ordinary:.2f} of the ordinary time, not a third")
    for few, many in pairwise(sorted(measured)):
        linear = measured[few][0] * many / few
        if measured[many][0] > GOAL_GROWTH * linear:
            told.append(f"from {few} to {many} hosts the time grew faster than they did")
    return told


def main(sizes: tuple[int, ...]) -> int:
    """Print one row for each number of hosts; return the exit status."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for heading in ("hosts", "ours s", "ordinary s", "ratio", "ours s a host"):
        table.add_column(heading, justify="right")
    measured: dict[int, tuple[float, float]] = {}
    with fleet(max(sizes)) as hosts:
        for count in sizes:
            ours, ordinary = measured[count] = measure(hosts, count)
            ratio = f"{ours / ordinary:.3f}"
            table.add_row(
                str(count), f"{ours:.1f}", f"{ordinary:.1f}", ratio, f"{ours / count:.2f}"
            )
            console.print(f"{count} hosts: {ratio} of ordinary roles", highlight=False)
    console.print(table)
    for goal in missed(measured):
        console.print(f"missed: {goal}", highlight=False)
    return 1 if missed(measured) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(tuple(int(size) for size in sys.argv[1:]) or SIZES))
    except pytest.skip.Exception as reason:  # what the tests' own roots lack here
        print(f"nothing was measured: {reason}", file=sys.stderr)
        sys.exit(3)
