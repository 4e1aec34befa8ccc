"""Which processes are a cluster's own: programs that sleep under the names of components."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local_cluster.conftest import NAMES
from tokenworks.local_cluster import LocalCluster, State
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_cluster.processes import running

Pretender = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def pretender(tmp_path: Path) -> Pretender:
    """Start a program by the path of a cluster's component; it sleeps for a minute."""
    started: list[subprocess.Popen[bytes]] = []
    layout = Layout.of("local", tmp_path)

    def start(component: str) -> subprocess.Popen[bytes]:
        program = layout.program(component)
        program.parent.mkdir(parents=True, exist_ok=True)
        if not program.exists():
            program.symlink_to("/bin/sleep")
        started.append(subprocess.Popen([str(program), "60"]))
        deadline = time.monotonic() + 5
        while component not in running(layout) and time.monotonic() < deadline:
            time.sleep(0.01)
        return started[-1]

    return start


def test_a_process_is_known_by_the_path_it_was_started_by(
    tmp_path: Path, pretender: Pretender
) -> None:
    layout = Layout.of("local", tmp_path)
    other = subprocess.Popen(["/bin/sleep", "60"])
    etcd = pretender("etcd")
    try:
        assert running(layout) == {"etcd": (etcd.pid,)}
        assert running(Layout.of("loca", tmp_path)) == {}
    finally:
        for process in (etcd, other):
            process.kill()
            process.wait()
    assert running(layout) == {}


def test_ending_a_cluster_spares_a_program_that_has_its_old_process_id(
    tmp_path: Path, pretender: Pretender
) -> None:
    layout = Layout.of("local", tmp_path)
    bystander = subprocess.Popen(["/bin/sleep", "60"])
    etcd = pretender("etcd")
    for component in NAMES:
        layout.pid_file(component).parent.mkdir(parents=True, exist_ok=True)
        layout.pid_file(component).write_text(str(bystander.pid))
    try:
        LocalCluster("local", tmp_path).stop()
        assert etcd.wait(timeout=10) == -signal.SIGTERM
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_component_without_files_makes_the_cluster_degraded(
    tmp_path: Path, pretender: Pretender
) -> None:
    etcd = pretender("etcd")
    cluster = LocalCluster("local", tmp_path)
    try:
        status = cluster.status()
        assert status.state is State.DEGRADED
        assert status.components[0].because == "runs without its files"
    finally:
        cluster.delete()
        etcd.wait(timeout=10)
    assert not (tmp_path / ".tokenworks").exists()


def test_a_cluster_that_never_was_is_absent_and_can_be_stopped_and_deleted(tmp_path: Path) -> None:
    cluster = LocalCluster("local", tmp_path)
    assert cluster.status().state is State.ABSENT
    cluster.stop()
    cluster.delete()
    assert list(tmp_path.iterdir()) == []
