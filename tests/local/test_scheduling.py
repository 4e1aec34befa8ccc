"""Tensor-parallel pods on the real scheduler: only nodes with enough free GPUs take them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.local.checkout import Checkout
from tokenworks.naming import ENGINES_NAMESPACE

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

NAMESPACE = f"--namespace={ENGINES_NAMESPACE}"
FILLER = {"test": "filler"}
WAIT_SECONDS = 20


@pytest.fixture
def cluster(checkout: Checkout) -> Iterator[Checkout]:
    yield checkout
    checkout.kubectl("delete", "pods", NAMESPACE, "--selector=test=filler", "--now")


def gpus(pod: dict[str, Any]) -> int:
    containers = pod["spec"]["containers"]
    return sum(int(c["resources"].get("limits", {}).get("nvidia.com/gpu", 0)) for c in containers)


def free_gpus(cluster: Checkout) -> dict[str, int]:
    nodes = cluster.get("nodes", "--selector=tokenworks.dev/node-pool=h100")
    free = Counter(
        {n["metadata"]["name"]: int(n["status"]["allocatable"]["nvidia.com/gpu"]) for n in nodes}
    )
    for pod in cluster.get("pods", "--all-namespaces"):
        free[pod["spec"].get("nodeName", "")] -= gpus(pod)
    return {node: free[node] for node in sorted(free) if node.startswith("h100")}


def qwen_pod(cluster: Checkout, name: str, *, count: int, node: str | None = None) -> None:
    """A pod like those of the tensor-parallel model, with another number of GPUs if asked."""
    (template,) = cluster.get("deployment", "qwen3-32b", NAMESPACE)
    spec = template["spec"]["template"]["spec"]
    resources = spec["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part]["nvidia.com/gpu"] = str(count)
        resources[part]["memory"] = "1Gi"
    resources["requests"]["cpu"] = "1"
    spec["containers"][0]["volumeMounts"] = [
        m for m in spec["containers"][0]["volumeMounts"] if m["name"] != "shared-memory"
    ]
    spec["volumes"] = [v for v in spec["volumes"] if v["name"] != "shared-memory"]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": ENGINES_NAMESPACE, "labels": FILLER},
        "spec": spec,
    }
    cluster.kubectl("create", "--filename=-", stdin=json.dumps(pod))


def settled(cluster: Checkout, name: str) -> dict[str, Any]:
    """The pod once the scheduler has decided about it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        (pod,) = cluster.get("pod", name, NAMESPACE)
        if [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]:
            return pod
        time.sleep(0.2)
    raise AssertionError(f"the scheduler did not decide about {name}")


def leave(cluster: Checkout, node: str, count: int) -> None:
    """Take GPUs of a node until so many are free."""
    taken = free_gpus(cluster)[node] - count
    if taken:
        qwen_pod(cluster, f"filler-{node}", count=taken, node=node)
        assert settled(cluster, f"filler-{node}")["spec"]["nodeName"] == node


def test_replicas_run_on_nodes_of_their_pool_with_their_gpus(cluster: Checkout) -> None:
    pods = cluster.get(
        "pods", NAMESPACE, "--selector=tokenworks.dev/model=qwen3-32b,tokenworks.dev/role=engine"
    )
    assert [gpus(pod) for pod in pods] == [2, 2]
    assert {pod["spec"]["nodeName"].rsplit("-", 1)[0] for pod in pods} == {"h100"}
    assert all(count >= 0 for count in free_gpus(cluster).values())


def test_a_node_with_one_free_gpu_is_passed_over_for_one_with_two(cluster: Checkout) -> None:
    leave(cluster, "h100-0", 1)
    leave(cluster, "h100-1", 2)
    qwen_pod(cluster, "wide", count=2)
    assert settled(cluster, "wide")["spec"]["nodeName"] == "h100-1"


def test_two_single_gpus_on_two_nodes_are_not_enough(cluster: Checkout) -> None:
    leave(cluster, "h100-0", 1)
    leave(cluster, "h100-1", 1)
    qwen_pod(cluster, "wide", count=2)
    pod = settled(cluster, "wide")
    assert "nodeName" not in pod["spec"]
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert "Insufficient nvidia.com/gpu" in condition["message"]


def test_the_doctor_says_which_pod_waits_for_gpus(cluster: Checkout) -> None:
    leave(cluster, "h100-0", 1)
    leave(cluster, "h100-1", 1)
    qwen_pod(cluster, "wide", count=2)
    settled(cluster, "wide")
    done = cluster.tokenworks("doctor", "local", check=False)
    assert done.returncode == 1
    assert "pod wide" in done.stdout
    assert "Insufficient nvidia.com/gpu" in done.stdout
