"""Nodes of a real API server: one failure domain leaves at a time, and only while pods allow it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import world
from tests.ansible.world import Archive, Machine, Ran
from tests.cluster_fixtures import Kubectl, clusters
from tokenworks.local_cluster import LocalCluster
from tokenworks.toolchain import Toolbox

__all__ = ["clusters"]

pytestmark = pytest.mark.cluster

RACKS = {"gpu-1": "rack-a", "gpu-2": "rack-a", "gpu-3": "rack-b"}
SPARE = "spare"
SAID = "Say why the node could not be drained"
NODE = """
apiVersion: v1
kind: Node
metadata:
  name: {name}
  annotations: {{kwok.x-k8s.io/node: fake}}
  labels: {{kubernetes.io/hostname: {name}}}
status:
  capacity: {{cpu: "96", memory: 1Ti, pods: "110"}}
  allocatable: {{cpu: "96", memory: 1Ti, pods: "110"}}
"""
POD = """
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 60
      containers: [{{name: {name}, image: example.org/{name}}}]
"""
DAEMONS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: exporter}
spec:
  selector: {matchLabels: {app: exporter}}
  template:""" + POD.format(name="exporter")
ENGINES = (
    """
apiVersion: apps/v1
kind: Deployment
metadata: {name: engine}
spec:
  replicas: 3
  selector: {matchLabels: {app: engine}}
  template:"""
    + POD.format(name="engine")
    + """
      volumes: [{name: scratch, emptyDir: {}}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {app: engine}}
"""
)
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: engine}}
spec:
  minAvailable: {least}
  selector: {{matchLabels: {{app: engine}}}}
"""
LONELY = """
apiVersion: v1
kind: Pod
metadata: {name: notebook}
spec: {nodeName: gpu-1, containers: [{name: notebook, image: example.org/notebook}]}
"""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Hosts that are nodes of a cluster, each as locked but for containerd's drop-in."""

    kubectl: Kubectl
    kubeconfig: Path
    hosts: dict[str, Machine]
    run: Callable[[], Ran]

    def budget(self, least: int) -> None:
        self.kubectl("apply", "-f", "-", given=BUDGET.format(least=least))

    def pods(self, app: str) -> dict[str, tuple[str, str]]:
        """Node and UID of each running pod of an application."""
        found = json.loads(self.kubectl("get", "pods", "-l", f"app={app}", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: (pod["spec"].get("nodeName", ""), pod["metadata"]["uid"])
            for pod in found
        }

    @property
    def cordoned(self) -> list[str]:
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")]

    @property
    def restarted(self) -> list[str]:
        """Hosts whose containerd this run has restarted."""
        return [
            n for n, host in self.hosts.items() if host.log[-1:] == ["systemctl restart containerd"]
        ]


@pytest.fixture
def fleet(
    toolbox: Toolbox, clusters: list[LocalCluster], tmp_path: Path, as_locked: str,
    published: Archive, layers: Callable[[str], Path],
) -> Fleet:  # fmt: skip
    cluster = LocalCluster("drains", tmp_path)
    clusters.append(cluster)
    cluster.ensure_running(toolbox, lambda _: None)
    kubectl = Kubectl(toolbox, cluster)
    objects = [*(NODE.format(name=name) for name in (*RACKS, SPARE)), DAEMONS, ENGINES]
    kubectl("apply", "-f", "-", given="---".join(objects))
    kubectl("rollout", "status", "daemonset/exporter", "--timeout=50s")
    kubectl("rollout", "status", "deployment/engine", "--timeout=50s")
    settings = Machine(root=Path()).settings.model_copy(update={"drain_timeout_seconds": 8})
    hosts = {
        name: Machine(root=layers(as_locked), settings=settings, failure_domain=rack)
        for name, rack in RACKS.items()
    }
    for host in hosts.values():
        host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
        (host.root / "var/log/stand-in.log").write_text("")

    def run() -> Ran:
        return world.play(
            "prepare.yml", hosts, published.lock(), published, tmp_path / "run",
            programs=toolbox.path("kubectl").parent, host_kubeconfig=str(cluster.kubeconfig),
        )  # fmt: skip

    return Fleet(kubectl=kubectl, kubeconfig=cluster.kubeconfig, hosts=hosts, run=run)


@contextmanager
def watched(fleet: Fleet, kind: str, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Every state that an object of a kind goes through, once the block is over."""
    seen: list[dict[str, Any]] = []
    file = folder / f"{kind}.json"
    command = [*fleet.kubectl.command, "get", kind, "--watch", "--output", "json"]
    with file.open("w") as output:
        watching = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        try:
            yield seen
        finally:
            watching.terminate()
            watching.wait()
    decoder, text = json.JSONDecoder(), file.read_text()
    while text.strip():
        one, end = decoder.raw_decode(text.lstrip())
        seen.append(one)
        text = text.lstrip()[end:]


def test_one_failure_domain_is_drained_at_a_time_and_comes_back_once_proven(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.budget(2)
    daemons, engines = fleet.pods("exporter"), fleet.pods("engine")
    with watched(fleet, "nodes", tmp_path) as nodes, watched(fleet, "pods", tmp_path) as pods:
        ran = fleet.run()
    assert ran.status == 0, ran.message
    racks = racks_out(nodes)
    assert {RACKS[name] for out in racks for name in out} == {"rack-a", "rack-b"}
    assert all(len({RACKS[name] for name in out}) <= 1 for out in racks)
    assert fewest_ready(pods) >= 2
    assert fleet.cordoned == []
    assert fleet.pods("exporter") == daemons
    moved = {uid for node, uid in engines.values() if node != SPARE}
    assert moved.isdisjoint(uid for _, uid in fleet.pods("engine").values())
    tasks = list(ran.tasks)
    for name in RACKS:
        proven = tasks.index(f"{name}: kubelet_gate : Prove the GPUs")
        assert tasks.index(f"{name}: Evict its pods") < proven
        assert proven < tasks.index(f"{name}: Uncordon the node")


def racks_out(nodes: list[dict[str, Any]]) -> list[frozenset[str]]:
    """Every set of nodes that was cordoned at one time."""
    out: set[str] = set()
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        (out.add if node["spec"].get("unschedulable") else out.discard)(name)
        found.append(frozenset(out))
    return found


def fewest_ready(pods: list[dict[str, Any]]) -> int:
    """The least number of engines that were ready at one time, from when all had been."""
    ready: dict[str, bool] = {}
    counts = []
    for pod in pods:
        if pod["metadata"]["labels"]["app"] == "engine":
            conditions = pod.get("status", {}).get("conditions", [])
            well = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            ready[pod["metadata"]["name"]] = well and "deletionTimestamp" not in pod["metadata"]
            counts.append(sum(ready.values()))
    return min(counts[counts.index(3) :])


def test_a_disruption_budget_that_never_allows_it_ends_the_run_with_the_pods_names(
    fleet: Fleet,
) -> None:
    fleet.budget(3)
    engines = fleet.pods("engine")
    ran = fleet.run()
    assert ran.status == 2
    of_rack = {name for name, (node, _) in engines.items() if RACKS.get(node) == "rack-a"}
    assert of_rack
    for name in of_rack:
        assert name in ran.message
    assert "global timeout reached: 8s" in ran.message
    assert "relax their PodDisruptionBudget" in ran.message
    assert fleet.pods("engine") == engines
    assert fleet.restarted == []
    assert set(fleet.cordoned) == {"gpu-1", "gpu-2"}
    fleet.budget(1)
    again = fleet.run()
    assert again.status == 0, again.message
    assert fleet.restarted == list(RACKS)
    assert fleet.cordoned == []


def test_a_node_whose_kubelet_is_down_is_repaired_although_its_pods_stay(fleet: Fleet) -> None:
    """As after a gate that failed at boot: nobody tells the API server that pods have ended."""
    running = {node: name for name, (node, _) in fleet.pods("engine").items()}
    # Three engines on four nodes: each rack of two has one at least.
    down, other = ("gpu-1", "gpu-2") if "gpu-1" in running else ("gpu-2", "gpu-1")
    unended = '{"metadata": {"finalizers": ["tests.tokenworks.dev/kubelet"]}}'
    fleet.kubectl("patch", "pod", running[down], "--type=merge", f"--patch={unended}")
    kubelet = "etc/systemd/system/kubelet.service"
    for host in fleet.hosts.values():
        host.write(kubelet, "[Service]\nExecStart=/usr/bin/kubelet\n")
        host.write("var/lib/stand-in/active/kubelet.service", "")
    waited = fleet.run()
    assert waited.status == 2
    assert "to terminate: context deadline exceeded" in waited.message
    assert "another host of its failure domain" in waited.tasks[f"{other}: {SAID}"]["msg"]
    assert down not in fleet.restarted
    (fleet.hosts[down].root / "var/lib/stand-in/active/kubelet.service").unlink()
    ran = fleet.run()
    assert ran.status == 0, ran.message
    assert fleet.restarted == list(RACKS)
    assert fleet.cordoned == []
    assert fleet.pods("engine")[running[down]][0] == down


def test_a_pod_that_nothing_would_make_again_is_named_and_lives_on(fleet: Fleet) -> None:
    fleet.kubectl("apply", "-f", "-", given=LONELY)
    ran = fleet.run()
    assert ran.status == 2
    assert "declare no controller" in ran.message
    assert "default/notebook" in ran.message
    assert fleet.kubectl("get", "pod", "notebook", "-o", "jsonpath={.spec.nodeName}") == "gpu-1"
    assert "gpu-1" not in fleet.restarted


def test_bad_gpus_keep_their_node_and_every_later_failure_domain_from_changing(
    fleet: Fleet,
) -> None:
    fleet.hosts["gpu-1"].write("var/lib/stand-in/faults.json", '{"fallen": 1}')
    ran = fleet.run()
    assert ran.status == 2
    assert "inventory/gpus failed" in ran.message
    assert "gpu-1" in fleet.cordoned
    assert "gpu-3" not in fleet.cordoned
    assert "gpu-3" not in fleet.restarted
