"""The real playbooks through the real dynamic resource, in updates of the real Pulumi CLI."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ansible import roots, world
from tests.ansible.debs import DRIVER, NEWER_DRIVER
from tests.ansible.world import Archive, Machine
from tests.hosts import pulumi_project
from tests.hosts.pulumi_project import PASSPHRASE, Project, until
from tokenworks.hosts.inventory import Access, Host, Pool
from tokenworks.hosts.lock import HostLock
from tokenworks.toolchain import Toolbox

pytestmark = pytest.mark.cluster

CONNECTION = f"transport = root\nconnection_plugins = {world.HERE}/plugins/connection\n"
PAUSE = """#!/bin/sh
# Stands still, once, between unpacking and configuring.
[ ! -e /root/unpacked ] || exit 0
dpkg-query --show --showformat '${db:Status-Status}\\n' | grep -qx unpacked || exit 0
touch /root/unpacked
sleep 600
"""


@pytest.fixture
def project(toolbox: Toolbox, tmp_path: Path) -> Project:
    """A project with our own playbooks, for hosts that are folders."""
    made = pulumi_project.project(toolbox, tmp_path)
    skipped = shutil.ignore_patterns("__pycache__")
    playbooks = made.folder / "ansible"
    shutil.copytree(world.ROOT / "ansible", playbooks, ignore=skipped)
    settings = (playbooks / "ansible.cfg").read_text()
    (playbooks / "ansible.cfg").write_text(
        settings.replace("[defaults]\n", f"[defaults]\n{CONNECTION}")
    )
    return made


def pool(machines: dict[str, Machine], lock: HostLock, archive: Archive) -> Pool:
    return Pool(
        name="h100",
        hosts=tuple(
            Host(name=name, address=str(machine.root), failure_domain=name)
            for name, machine in machines.items()
        ),
        access=Access(user="root", known_hosts=""),
        lock=lock,
        settings=next(iter(machines.values())).settings,
        keys={"tests.asc": archive.armoured},
        kubeconfig="",
    )


def test_machines_are_brought_to_the_lock_kept_there_and_brought_back(
    project: Project, machine: Machine, host: Machine, published: Archive
) -> None:
    machines = {"gpu-1": machine, "gpu-2": host}
    project.ask(pool(machines, published.lock(), published))
    made = project.up()
    assert made.returncode == 0, made.stdout
    assert "prepare h100: gpu-1: gpu_driver : Load the driver" in made.stdout
    hosts = project.output("hosts")
    assert [hosts[name]["outcome"] for name in machines] == ["changed", "same"]
    assert {hosts[name]["observed"]["driver"] for name in machines} == {DRIVER}
    before = [(each.snapshot(), each.log) for each in machines.values()]
    again = project.up()
    assert "2 unchanged" in again.stdout, again.stdout
    assert [(each.snapshot(), each.log) for each in machines.values()] == before
    well = project.refresh()
    assert well.returncode == 0, well.stdout
    assert project.state()["drift"] == {}
    newer = f"{NEWER_DRIVER}-1ubuntu1"
    host.apt(f"libnvidia-compute-580={newer}", f"nvidia-utils-580={newer}")
    refreshed = project.refresh()
    assert refreshed.returncode == 0, refreshed.stdout
    drift = project.state()["drift"]
    assert list(drift) == ["gpu-2"]
    assert f"libnvidia-compute-580 is at {newer}, locked at {DRIVER}-1ubuntu1" in drift["gpu-2"][0]
    repaired = project.up()
    assert "~ 1 updated" in repaired.stdout, repaired.stdout
    assert host.packages["libnvidia-compute-580"] == f"{DRIVER}-1ubuntu1"
    assert project.state()["drift"] == {}
    assert_no_secret(project, *machines.values())


def assert_no_secret(project: Project, *machines: Machine) -> None:
    """Nothing of ours lies on a host, in the state or in a folder of a run."""
    assert PASSPHRASE not in project.pulumi("stack", "export", "--show-secrets").stdout
    assert list((project.folder / "tmp").glob("tw-*")) == []
    for machine in machines:
        for folder in (
            "root",
            "tmp",
            "etc/tokenworks",
            "usr/local",
            "var/lib/tokenworks",
            "var/log",
        ):
            for file in (machine.root / folder).rglob("*"):
                if file.is_file():
                    assert PASSPHRASE.encode() not in file.read_bytes()
        assert list((machine.root / "root/.ansible").rglob("AnsiballZ_*")) == []


def test_a_machine_that_fails_fails_the_update_with_its_name_and_a_repeat_finishes(
    project: Project, host: Machine, layers: Callable[[str], Path], as_locked: str,
    published: Archive,
) -> None:  # fmt: skip
    machines = {"gpu-1": host, "gpu-2": Machine(root=layers(as_locked))}
    for each in machines.values():
        each.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    host.write("var/lib/stand-in/faults.json", '{"fallen": 1}')
    project.ask(pool(machines, published.lock(), published))
    failed = project.up()
    assert failed.returncode != 0
    assert "gpu-1 failed: at kubelet_gate : Prove the GPUs" in failed.stdout
    assert "gpu-2 not processed: its turn did not come" in failed.stdout
    (host.root / "var/lib/stand-in/faults.json").unlink()
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert set(project.output("hosts")) == {"gpu-1", "gpu-2"}


def test_an_update_that_dies_with_its_machine_amid_a_transaction_is_finished_by_the_next(
    project: Project, host: Machine, published: Archive
) -> None:
    host.write("root/pause", PAUSE)
    (host.root / "root/pause").chmod(0o755)
    host.write("etc/dpkg/dpkg.cfg.d/pause", "pre-invoke=/root/pause\n")
    project.ask(pool({"gpu-1": host}, published.lock(NEWER_DRIVER), published))
    running = project.begin()
    until((host.root / "root/unpacked").exists)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    until(lambda: not project.processes())
    roots.end_everything_in(host.root)  # as a machine that loses power
    assert "not yet configured" in host.run("dpkg", "--audit", status=None)
    project.pulumi("cancel", "--yes")
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert host.run("dpkg", "--audit") == ""
    assert f"  {NEWER_DRIVER}  " in host.text("proc/driver/nvidia/version")
    assert project.output("hosts")["gpu-1"]["outcome"] == "changed"
