"""A run that changes nothing, on many hosts: ours against ordinary roles at Ansible's own defaults.

The hosts are folders that Ansible enters by chroot, all as locked, with real apt, dpkg and
containerd. ``ordinary_roles.yml`` asks for the same packages, files, units and programs, each kind
by a task of its own and each thing by a call of its own, with facts, 5 forks and no pipelining.
Both run in turn on the same hosts, so what is printed are ratios of one run. There is no SSH in it,
which favours the ordinary roles: over a network they pay for each round trip.

usage: python -m benchmarks.hosts [HOSTS ...]      as root      (default: 5 10 20)
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
from pathlib import Path
from typing import Any, Final

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
ORDINARY: Final = Path(__file__).parent / "ordinary_roles.yml"
OURS: Final = world.ROOT / "ansible" / "prepare.yml"
OUR_CONFIGURATION: Final = world.ROOT / "ansible" / "ansible.cfg"
UNITS: Final = (
    "nvidia-persistenced.service",
    "nvidia-cdi-refresh.path",
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
    where = next(iter(roots.mirror(roots.SUITE)), "http://deb.debian.org/debian")
    resolver = Path("/etc/resolv.conf").read_text()
    host.write("/etc/resolv.conf", resolver)
    host.write("/etc/apt/sources.list", f"deb {where} {roots.SUITE} main\n")
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
        command, env=environment, capture_output=True, text=True, check=False, cwd=hosts.folder
    )
    took = time.perf_counter() - before
    good = re.findall(r"changed=0 +unreachable=0 +failed=0", done.stdout)
    if done.returncode != 0 or len(good) != count:
        raise SystemExit(f"{playbook.name} changed or failed:\n{done.stdout[-3000:]}{done.stderr}")
    return took


def measure(hosts: Fleet, count: int) -> tuple[float, float]:
    """Return the median seconds of our run and of the ordinary one, taken in turn."""
    defaults = hosts.folder / "defaults.cfg"
    defaults.write_text("[defaults]\n")
    ours, ordinary = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(hosts, count, OURS, OUR_CONFIGURATION))
        ordinary.append(seconds(hosts, count, ORDINARY, defaults))
    return statistics.median(ours), statistics.median(ordinary)


def main(sizes: tuple[int, ...]) -> None:
    """Print one row for each number of hosts."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for heading in ("hosts", "ours s", "ordinary s", "ratio", "ours s a host"):
        table.add_column(heading, justify="right")
    with fleet(max(sizes)) as hosts:
        for count in sizes:
            ours, ordinary = measure(hosts, count)
            row = (
                f"{ours:.1f}",
                f"{ordinary:.1f}",
                f"{ours / ordinary:.2f}",
                f"{ours / count:.2f}",
            )
            table.add_row(str(count), *row)
            told = f"{count} hosts: {ours / ordinary:.2f} x ordinary roles"
            console.print(told, highlight=False)
    console.print(table)


if __name__ == "__main__":
    main(tuple(int(size) for size in sys.argv[1:]) or SIZES)
