"""Hosts that are nodes with work on them: drained first, proven after, and let alone otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import world
from tests.ansible.debs import DRIVER, NEWER_DRIVER, TOOLKIT
from tests.ansible.world import Archive, Machine, Play
from tests.hosts.samples import lock
from tokenworks.hosts.files import node_labels

KUBECTL = """#!/bin/sh
shift 2  # --kubeconfig and --request-timeout
echo "$@" >> "{folder}/log"
case "$1" in
  get) [ ! -e {folder}/silent ] || {{ echo "connection refused" >&2; exit 1; }}
    cat {folder}/node ;;
  cordon) echo node cordoned ;;
  drain) [ ! -e {folder}/stubborn ] || {{
    echo "Cannot evict pod: disruption budget" >&2; exit 1; }} ;;
  label) echo node/gpu-1 labeled ;;
esac
[ ! -e {folder}/after-"$1" ] || . {folder}/after-"$1"
"""


class Cluster:
    """A kubectl that writes down what it is asked."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "kubectl").write_text(KUBECTL.format(folder=folder))
        (folder / "kubectl").chmod(0o755)
        self.node()

    def node(self, *, cordoned: bool = False, driver: str | None = DRIVER) -> None:
        """Have the node, with the labels of the lock, that of the driver as told or missing."""
        labels = node_labels(lock().model_copy(update={"toolkit_version": TOOLKIT}))
        labels |= {"tokenworks.dev/driver": driver or ""}
        given = {name: text for name, text in labels.items() if text}
        spec = {"unschedulable": True} if cordoned else {}
        node = {"metadata": {"name": "gpu-1", "labels": given}, "spec": spec}
        (self.folder / "node").write_text(json.dumps(node))

    def no_node(self) -> None:
        """Have none."""
        (self.folder / "node").write_text("")

    def after(self, verb: str, script: str, *, time: int = 1) -> None:
        """Have something happen on the machines when a verb is carried out for gpu-1."""
        count = f"$(grep -c '^{verb} .*gpu-1' {self.folder}/log)"
        (self.folder / f"after-{verb}").write_text(f"[ {count} != {time} ] || {{\n{script}\n}}\n")

    @property
    def told(self) -> dict[str, Any]:
        return {"host_kubeconfig": str(self.folder / "config"), "programs": self.folder}

    @property
    def lines(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def verbs(self) -> list[str]:
        return [line.split()[0] for line in self.lines]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


POD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod7.slice/cri-containerd-8.scope\n"
SHELL = "0::/user.slice/user-1000.slice/session-4.scope\n"


def busy(host: Machine, group: str = SHELL) -> None:
    """A process of somebody's that computes on a GPU."""
    host.run("sh", "-c", busily(host, group).replace(str(host.root), ""))


def busily(host: Machine, group: str = SHELL) -> str:
    """What a shell does for it."""
    place = f"{host.root}/proc/4242"
    return (
        f"mkdir -p {place}/fd; echo python3 >{place}/comm; printf '%s' '{group}' >{place}/cgroup; "
        f"ln -sf /dev/nvidia0 {place}/fd/3\n"
    )


def test_a_node_is_drained_before_and_uncordoned_after_its_gpus_are_proven(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    busy(host, POD)
    cluster.after("drain", f"rm -r {host.root}/proc/4242")
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 0, ran.message
    assert cluster.verbs == ["get", "get", "cordon", "drain", "label", "uncordon"]
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


@pytest.mark.parametrize("verbs", [["get", "get"], ["get"]], ids=["pod", "shell"])
def test_work_on_a_machine_that_is_no_node_of_the_cluster_is_never_stopped(
    verbs: list[str], host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    of_pod = len(verbs) == 2
    busy(host, POD if of_pod else SHELL)
    cluster.no_node()
    packages = host.packages
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 2
    why = "the cluster has no node gpu-1 to drain" if of_pod else "it is of no pod"
    assert f"python3 (4242) does; {why}" in ran.message
    assert host.packages == packages
    assert cluster.verbs == verbs


@pytest.mark.parametrize("playbook", ["check.yml", "prepare.yml"])
def test_a_node_is_not_emptied_for_work_that_no_drain_would_end(
    playbook: str, host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    """Somebody's shell: its pods would have left for nothing, and the dry run says so as well."""
    busy(host)
    before, log = host.snapshot(), host.log
    ran = play(playbook, host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 2
    assert "python3 (4242) does; it is of no pod, so that no drain would end it" in ran.message
    assert cluster.verbs == ["get"]
    assert (host.snapshot(), host.log) == (before, log)


def test_work_that_began_while_other_failure_domains_changed_is_not_stopped(
    layers: Callable[[str], Path], as_locked: str, published: Archive, tmp_path: Path,
    cluster: Cluster,
) -> None:  # fmt: skip
    hosts = {name: Machine(root=layers(as_locked)) for name in ("gpu-1", "gpu-2")}
    for host in hosts.values():
        host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    cluster.no_node()
    cluster.after("get", busily(hosts["gpu-2"]), time=2)
    before = len(hosts["gpu-2"].log)
    ran = world.play(
        "prepare.yml", hosts, published.lock(), published, tmp_path / "run", **cluster.told
    )
    assert ran.status == 2
    assert "python3 (4242) does; it is of no pod" in ran.message
    assert hosts["gpu-1"].log[-1:] == ["systemctl restart containerd"]
    assert hosts["gpu-2"].log[before:] == []


def test_what_differs_is_decided_anew_when_a_hosts_turn_comes(
    layers: Callable[[str], Path], as_locked: str, published: Archive, tmp_path: Path,
    cluster: Cluster,
) -> None:  # fmt: skip
    """Somebody has mended the second host while the first one changed."""
    hosts = {name: Machine(root=layers(as_locked)) for name in ("gpu-1", "gpu-2")}
    drop_in = "etc/containerd/conf.d/50-tokenworks.toml"
    locked = hosts["gpu-2"].text(drop_in)
    for host in hosts.values():
        host.write(drop_in, "version = 3\n")
    cluster.no_node()
    (cluster.folder / "mended").write_text(locked)
    mend = f"cp {cluster.folder}/mended {hosts['gpu-2'].root}/{drop_in}"
    # Asked for the second time, gpu-1 has its turn.
    cluster.after("get", mend, time=2)
    before = len(hosts["gpu-2"].log)
    ran = world.play(
        "prepare.yml", hosts, published.lock(), published, tmp_path / "run", **cluster.told
    )
    assert ran.status == 0, ran.message
    assert hosts["gpu-2"].log[before:] == []


@pytest.mark.parametrize("group", [SHELL, POD])
def test_after_a_drain_only_pods_that_stay_may_use_the_gpus(
    group: str, host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.after("drain", busily(host, group))
    write_kubelet(host, running=True)
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    if group == POD:
        assert ran.status == 0, ran.message
        return
    assert ran.status == 2
    assert "python3 (4242) still computes on the GPUs of the drained node" in ran.message
    assert host.log[before:] == []
    host.run("rm", "-r", "/proc/4242")
    (cluster.folder / "after-drain").unlink()
    cluster.node(cordoned=True)
    again = play("prepare.yml", host, published.lock(), **cluster.told)
    assert again.status == 0, again.message
    assert cluster.verbs[-1] == "uncordon"


def write_kubelet(host: Machine, *, running: bool) -> None:
    """Give the host a kubelet's unit."""
    host.write("etc/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n")
    if running:
        host.write("var/lib/stand-in/active/kubelet.service", "")


@pytest.mark.parametrize("running", [True, False])
def test_pods_that_nobody_ends_are_waited_for_only_where_a_kubelet_runs(
    running: bool, host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    write_kubelet(host, running=running)
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 0, ran.message
    drain = next(line for line in cluster.lines if line.startswith("drain"))
    assert ("--grace-period=1 --skip-wait-for-delete-timeout=1" in drain) is not running


def test_a_process_of_a_pod_that_no_kubelet_can_end_is_not_stopped(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    write_kubelet(host, running=False)
    busy(host, POD)
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 2
    assert "python3 (4242) still computes on the GPUs of the drained node" in ran.message


@pytest.mark.parametrize(
    ("driver", "because"),
    [
        ("1.2.3", f"label tokenworks.dev/driver of the node is 1.2.3, locked is {DRIVER}"),
        (None, "label tokenworks.dev/driver of the node is missing"),
    ],
)
def test_a_label_that_a_node_has_lost_is_found_and_put_back(
    driver: str | None, because: str,
    host: Machine, play: Play, published: Archive, cluster: Cluster,
) -> None:  # fmt: skip
    cluster.node(driver=driver)
    verified = play("verify.yml", host, published.lock(), **cluster.told)
    assert verified.status == 2
    assert because in verified.message
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 0, ran.message
    assert because in ran.changes["because"][0]
    assert ran.changes["steps"] == ["verify"]
    assert ran.changes["change_class"] == "configuration"
    assert host.log[before:] == []
    assert cluster.verbs[-3:] == ["get", "get", "label"]
    cluster.node()
    assert play("verify.yml", host, published.lock(), **cluster.told).status == 0
    assert play("prepare.yml", host, published.lock(), **cluster.told).changes["steps"] == []


def test_a_dry_run_asks_the_cluster_as_well(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.node(driver="1.2.3")
    for ran in (
        play("check.yml", host, published.lock(), **cluster.told),
        play("prepare.yml", host, published.lock(), "--check", **cluster.told),
    ):
        assert (ran.status, ran.changes["steps"]) == (0, ["verify"])
    assert cluster.verbs == ["get", "get"]


@pytest.mark.parametrize("playbook", ["check.yml", "verify.yml", "prepare.yml"])
def test_a_cluster_that_does_not_answer_is_told_before_anything_is_touched(
    playbook: str, host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    (cluster.folder / "silent").touch()
    before = host.snapshot()
    ran = play(playbook, host, published.lock(NEWER_DRIVER), **cluster.told)
    assert ran.status == 2
    assert "cannot be asked for node gpu-1: connection refused" in ran.message
    assert "Make its API server answer" in ran.message
    assert host.snapshot() == before


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
    cluster.node(cordoned=True)
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "")
    assert play("prepare.yml", host, published.lock(), **cluster.told).status == 0
    assert "drain" in cluster.verbs
    assert "uncordon" not in cluster.verbs


def test_a_cordon_that_a_cut_off_run_left_is_lifted_by_the_next(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.node(cordoned=True)
    host.write("var/lib/tokenworks/owed.json", json.dumps({"steps": ["uncordon"], "boot_id": ""}))
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 0, ran.message
    assert cluster.verbs == ["get", "get", "label", "uncordon"]
    assert play("prepare.yml", host, published.lock(), **cluster.told).changes["steps"] == []


def test_a_cordon_is_owed_for_as_long_as_the_cluster_has_no_such_node(
    host: Machine, play: Play, published: Archive, cluster: Cluster
) -> None:
    cluster.no_node()
    host.write("var/lib/tokenworks/owed.json", json.dumps({"steps": ["uncordon"], "boot_id": ""}))
    ran = play("prepare.yml", host, published.lock(), **cluster.told)
    assert ran.status == 0, ran.message
    assert "uncordon" not in cluster.verbs
    cluster.node(cordoned=True)
    again = play("prepare.yml", host, published.lock(), **cluster.told)
    assert again.status == 0, again.message
    assert cluster.verbs[-1] == "uncordon"
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
