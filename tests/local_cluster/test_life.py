"""A cluster's life: made, crashed, stopped, moved, deleted, one beside another."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster_fixtures import Kubectl
from tests.local_cluster.conftest import NAMES, kill, layout_of, pids, quiet, remember, remembers
from tokenworks.errors import OperationError
from tokenworks.local_cluster import LocalCluster, State
from tokenworks.local_cluster import cluster as clustering
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_cluster.ports import is_free, ports_of
from tokenworks.local_cluster.processes import running
from tokenworks.toolchain import Toolbox

pytestmark = pytest.mark.cluster


def with_program(toolbox: Toolbox, program: Path) -> Toolbox:
    """The toolbox with another program for the tool of that name."""
    return Toolbox(
        statuses=tuple(
            replace(each, path=program) if each.name == program.name else each
            for each in toolbox.statuses
        )
    )


def test_a_new_cluster_runs_within_seconds_and_says_that_it_is_new(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]
) -> None:
    cluster = LocalCluster("local", tmp_path)
    clusters.append(cluster)
    said: list[str] = []
    began = time.monotonic()
    started = cluster.ensure_running(toolbox, said.append)
    assert time.monotonic() - began < 60, "measured: 4 seconds"
    assert (started.created, started.started) == (True, True)
    assert said[0] == "creating the cluster: there is none yet"
    status = cluster.status()
    assert status.state is State.RUNNING
    assert [each.name for each in status.components] == NAMES
    assert all(each.well and each.log.is_file() for each in status.components)
    again = cluster.ensure_running(toolbox, pytest.fail)
    assert (again.created, again.started) == (False, False)


@pytest.mark.parametrize("dead", [["etcd"], ["kube-apiserver"], ["kwok-controller"], NAMES])
def test_a_crashed_cluster_is_noticed_and_started_with_its_data_and_ports(
    shared: LocalCluster, toolbox: Toolbox, dead: list[str]
) -> None:
    kubectl, before = Kubectl(toolbox, shared), shared.kubeconfig.read_text()
    remember(kubectl)
    kill(shared, *dead)
    status = shared.status()
    assert status.state is (State.STOPPED if dead == NAMES else State.DEGRADED)
    gone = [each.name for each in status.components if not each.pid]
    assert gone == [name for name in NAMES if name in dead]
    started = shared.ensure_running(toolbox, quiet)
    assert (started.created, started.started) == (False, True)
    assert shared.status().state is State.RUNNING
    assert shared.kubeconfig.read_text() == before
    assert remembers(kubectl)


def test_a_component_that_hangs_is_noticed_and_started_again(
    shared: LocalCluster, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "PATIENCE_SECONDS", 1.0)
    os.kill(pids(shared)["kube-scheduler"], signal.SIGSTOP)
    status = shared.status()
    assert status.state is State.DEGRADED
    hung = next(each for each in status.components if not each.well)
    assert hung.name == "kube-scheduler"
    assert "does not answer on port" in hung.because
    assert "kube-scheduler" in shared.ensure_running(toolbox, quiet).because
    assert shared.status().state is State.RUNNING


def test_a_stopped_cluster_has_no_process_and_starts_with_its_data(
    shared: LocalCluster, toolbox: Toolbox
) -> None:
    remember(Kubectl(toolbox, shared))
    shared.stop()
    assert shared.status().state is State.STOPPED
    assert pids(shared) == {}
    shared.ensure_running(toolbox, quiet)
    assert remembers(Kubectl(toolbox, shared))


def test_changed_settings_are_taken_over_and_the_data_stays(
    shared: LocalCluster, toolbox: Toolbox, tmp_path: Path
) -> None:
    remember(Kubectl(toolbox, shared))
    before = pids(shared)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "etcd").symlink_to(toolbox.path("etcd"))
    changed = with_program(toolbox, elsewhere / "etcd")
    started = shared.ensure_running(changed, quiet)
    assert started.because == "its settings or tools have changed"
    assert not started.created
    assert not set(before.values()) & set(pids(shared).values())
    assert remembers(Kubectl(toolbox, shared))


def test_two_environments_and_two_checkouts_run_side_by_side(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]
) -> None:
    places = [("one", "a"), ("one-two", "a"), ("one", "b, with space")]
    for environment, checkout in places:
        (tmp_path / checkout).mkdir(exist_ok=True)
        clusters.append(LocalCluster(environment, tmp_path / checkout))
    with ThreadPoolExecutor(len(clusters)) as pool:
        started = list(pool.map(lambda each: each.ensure_running(toolbox, quiet), clusters))
    assert all(each.created for each in started)
    assert [each.status().state for each in clusters] == [State.RUNNING] * len(clusters)
    kubectls = [Kubectl(toolbox, each) for each in clusters]
    remember(kubectls[0])
    for other in kubectls[1:]:
        assert "NotFound" in other.run("get", "configmap", "kept").stderr
    clusters[0].delete()
    assert [each.status().state for each in clusters[1:]] == [State.RUNNING] * 2
    assert clusters[0].status().state is State.ABSENT


def test_a_deleted_cluster_leaves_no_process_port_or_file(
    cluster: LocalCluster, toolbox: Toolbox, tmp_path: Path
) -> None:
    layout = Layout.of("local", tmp_path)
    block = json.loads(layout.record.read_text())["block"]
    before = pids(cluster)
    assert len(before) == len(NAMES)
    cluster.delete()
    assert cluster.status().state is State.ABSENT
    assert running(layout) == {}
    assert not (tmp_path / ".tokenworks").exists()
    deadline = time.monotonic() + 5
    while not all(map(is_free, ports_of(block).values())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(is_free, ports_of(block).values()))
    assert cluster.ensure_running(toolbox, quiet).created, "nothing is left to start from"


def test_deleting_spares_what_else_the_environment_keeps(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    other = tmp_path / ".tokenworks" / "local" / "tls"
    other.mkdir()
    cluster.delete()
    assert [path.name for path in other.parent.iterdir()] == ["tls"]


def test_files_removed_under_a_running_cluster_mean_a_new_one(
    cluster: LocalCluster, toolbox: Toolbox, tmp_path: Path
) -> None:
    before = pids(cluster)
    shutil.rmtree(tmp_path / ".tokenworks")
    assert cluster.status().state is State.DEGRADED
    assert cluster.ensure_running(toolbox, quiet).created
    assert not set(before.values()) & set(pids(cluster).values())


def test_a_moved_checkout_keeps_its_data(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    before = LocalCluster("local", old)
    clusters.append(before)
    before.ensure_running(toolbox, quiet)
    remember(Kubectl(toolbox, before))
    before.stop()
    old.rename(new)
    after = LocalCluster("local", new)
    clusters.append(after)
    assert not after.ensure_running(toolbox, quiet).created
    assert remembers(Kubectl(toolbox, after))


def test_a_port_that_another_program_took_is_named_with_what_to_do(
    shared: LocalCluster, toolbox: Toolbox
) -> None:
    shared.stop()
    block = json.loads(layout_of(shared).record.read_text())["block"]
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", ports_of(block)["kube_apiserver"]))
        thief.listen()
        with pytest.raises(OperationError, match=rf"port {block + 2}; end that program"):
            shared.ensure_running(toolbox, quiet)
    assert not shared.ensure_running(toolbox, quiet).created


def test_a_component_that_ends_at_once_is_named_with_its_last_lines_and_log(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]
) -> None:
    broken = tmp_path / "kube-scheduler"
    broken.write_text(
        "#!/bin/sh\n"
        'test "$1" = --version && { echo Kubernetes v1.35.4; exit; }\n'
        "echo the scheduler found no configuration >&2; exit 1\n"
    )
    broken.chmod(0o755)
    cluster = LocalCluster("local", tmp_path)
    clusters.append(cluster)
    began = time.monotonic()
    with pytest.raises(OperationError) as caught:
        cluster.ensure_running(with_program(toolbox, broken), quiet)
    assert time.monotonic() - began < 60
    assert "kube-scheduler ended" in str(caught.value)
    assert "the scheduler found no configuration" in str(caught.value)
    assert str(Layout.of("local", tmp_path).log("kube-scheduler")) in str(caught.value)
    assert pids(cluster) == {}, "a failed start leaves nothing running"
    assert cluster.status().state is State.ABSENT
    assert cluster.ensure_running(toolbox, quiet).created


def test_two_who_start_it_at_once_start_it_once(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]
) -> None:
    clusters += [LocalCluster("local", tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        started = list(pool.map(lambda each: each.ensure_running(toolbox, quiet), clusters))
    assert sorted(each.created for each in started) == [False, True]
    assert sorted(each.started for each in started) == [False, True]


INTERRUPTED = """
import sys
from pathlib import Path
from tokenworks.local_cluster import LocalCluster
from tokenworks.toolchain import CLUSTER_TOOLS, ensure
box = ensure(CLUSTER_TOOLS, lambda _: None)
print("ready", flush=True)
LocalCluster("local", Path(sys.argv[1])).ensure_running(box, lambda _: None)
"""


@pytest.mark.parametrize("after_seconds", [0.3, 0.6, 1.6])
def test_a_start_that_was_killed_half_way_is_made_good_by_the_next(
    toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster], after_seconds: float
) -> None:
    cluster, layout = LocalCluster("local", tmp_path), Layout.of("local", tmp_path)
    clusters.append(cluster)
    starter = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert starter.stdout is not None
    starter.stdout.readline()
    time.sleep(after_seconds)
    starter.kill()
    starter.wait()
    orphan = running(layout).get("kwokctl")
    assert cluster.ensure_running(toolbox, quiet).created
    assert cluster.status().state is State.RUNNING
    alive = running(layout)
    assert sorted(alive) == sorted(NAMES), f"kwokctl {orphan} was ended with the rest"
    assert all(len(found) == 1 for found in alive.values())
