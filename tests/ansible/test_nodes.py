"""Hosts that are nodes with work on them: drained first, proven after, and let alone otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ansible.debs import NEWER_DRIVER
from tests.ansible.world import Archive, Machine, Play

KUBECTL = """#!/bin/sh
shift 2  # --kubeconfig and --request-timeout
echo "$@" >> "{folder}/log"
case "$1" in
  get) printf '%s' "$(cat {folder}/node)" ;;
  cordon) printf 'gpu-1/true' > {folder}/node; echo node cordoned ;;
  drain) [ ! -e {folder}/stubborn ] || {{
    echo "Cannot evict pod: disruption budget" >&2; exit 1; }} ;;
  label) echo node/gpu-1 labeled ;;
esac
"""


class Cluster:
    """A kubectl that writes down what it is asked."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "kubectl").write_text(KUBECTL.format(folder=folder))
        (folder / "kubectl").chmod(0o755)
        self.node("gpu-1/")

    def node(self, text: str) -> None:
        (self.folder / "node").write_text(text)

    @property
    def told(self) -> dict[str, object]:
        return {"host_kubeconfig": str(self.folder / "config"), "programs": self.folder}

    @property
    def verbs(self) -> list[str]:
        log = self.folder / "log"
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


def busy(host: Machine) -> None:
    """A process of somebody's that computes on a GPU."""
    host.write("proc/4242/comm", "python3\n")
    (host.root / "proc/4242/fd").mkdir()
    (host.root / "proc/4242/fd/3").symlink_to("/dev/nvidia0")


def test_a_node_is_drained_before_and_uncordoned_after_its_gpus_are_proven(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    busy(host)
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 0, ran.message
    assert cluster.verbs == ["get", "cordon", "drain", "label", "uncordon"]
    tasks = list(ran.tasks)
    order = [
        "Evict its pods",
        "base : Bring all packages to the lock in one transaction",
        "gpu_driver : Reboot into the locked kernel and driver",
        "kubelet_gate : Prove the GPUs",
        "Uncordon the node",
    ]
    assert [tasks.index(name) for name in order] == sorted(tasks.index(name) for name in order)
    label = next(
        line for line in (cluster.folder / "log").read_text().splitlines() if "label" in line
    )
    assert f"tokenworks.dev/driver={NEWER_DRIVER}" in label


def test_work_on_the_gpus_is_never_stopped_where_nothing_can_drain_it(
    host: Machine, play: Play, published: Archive
) -> None:
    busy(host)
    before, log = host.snapshot(), host.log
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert "python3 (4242) does; name a kubeconfig" in ran.message
    assert (host.snapshot(), host.log) == (before, log)


def test_work_on_a_machine_that_is_no_node_of_the_cluster_is_never_stopped(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    busy(host)
    cluster.node("")
    packages = host.packages
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 2
    assert "python3 (4242) does; the cluster has no node gpu-1 to drain" in ran.message
    assert host.packages == packages
    assert cluster.verbs == ["get"]


def test_a_missing_hold_is_restored_under_load_without_reload_or_restart(
    host: Machine, play: Play, published: Archive
) -> None:
    busy(host)
    host.run("apt-mark", "unhold", "nvidia-utils-580")
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert ran.changes["change_class"] == "configuration"
    assert "nvidia-utils-580" in host.run("apt-mark", "showhold").split()
    assert host.log[before:] == []


def test_a_node_that_somebody_else_cordoned_stays_cordoned(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.node("gpu-1/true")
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "")
    assert play("prepare.yml", host, published.lock(), **cluster.told).status == 0
    assert "drain" in cluster.verbs
    assert "uncordon" not in cluster.verbs


def test_a_cordon_that_a_cut_off_run_left_is_lifted_by_the_next(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.node("gpu-1/true")
    host.write("var/lib/tokenworks/owed.json", json.dumps({"steps": ["uncordon"], "boot_id": ""}))
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 0, ran.message
    assert cluster.verbs == ["get", "label", "uncordon"]
    assert play("prepare.yml", host, published.lock(), **cluster.told).changes["steps"] == []


def test_a_drain_that_fails_leaves_the_host_as_it_was(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    (cluster.folder / "stubborn").touch()
    packages = host.packages
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 2
    assert "could not be drained: Cannot evict pod: disruption budget" in ran.message
    assert "to give up, run: kubectl uncordon" in ran.message
    assert host.packages == packages


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"fallen": 1}, "inventory/gpus failed"),
        ({"kernel_log": "NVRM: Xid (PCI:0000:01:00): 79, x"}, "kernel/xid failed: [79]"),
    ],
)
def test_bad_gpus_keep_a_node_out(
    fault: dict[str, object], check: str,
    host: Machine, play: Play, published: Archive, cluster: Cluster,
) -> None:  # fmt: skip
    host.write("var/lib/stand-in/faults.json", json.dumps(fault))
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "")
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 2
    assert check in ran.message
    assert "uncordon" not in cluster.verbs


def test_gpus_that_cannot_be_asked_are_not_called_bad_and_not_called_good(
    host: Machine, play: Play, published: Archive
) -> None:
    host.run("rm", "/usr/bin/journalctl")
    ran = play("verify.yml", host, published.lock())
    assert ran.status == 2
    assert "kernel/xid could not be told: journalctl did not run" in ran.message
    assert "failed:" not in ran.message
