"""What a cluster offers to whoever deploys into it."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from urllib.request import urlopen

import pytest

from tests.cluster_fixtures import Kubectl
from tests.local_cluster.conftest import layout_of, pids
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_cluster.ports import ports_of
from tokenworks.toolchain import Toolbox

pytestmark = pytest.mark.cluster

MACHINES = """
apiVersion: v1
kind: Node
metadata:
  name: gpu-0
  annotations: {kwok.x-k8s.io/node: fake}
status:
  capacity: {cpu: "96", memory: 1Ti, pods: "110", nvidia.com/gpu: "8"}
  allocatable: {cpu: "95", memory: 1Ti, pods: "110", nvidia.com/gpu: "8"}
---
apiVersion: v1
kind: Node
metadata: {name: real-0}
"""

WORK = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: on-first-use}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once}
provisioner: example.com/files
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights}
spec:
  storageClassName: on-first-use
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 100Gi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: unused}
spec:
  storageClassName: at-once
  accessModes: [ReadOnlyMany]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Service
metadata: {name: gateway}
spec: {type: LoadBalancer, selector: {app: engine}, ports: [{port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: engine}
spec: {selector: {app: engine}, ports: [{port: 8000}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: verify}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers: [{name: verify, image: example.test/verify}]
---
apiVersion: v1
kind: Pod
metadata: {name: engine, labels: {app: engine}}
spec:
  terminationGracePeriodSeconds: 600
  readinessGates: [{conditionType: example.com/gate}]
  initContainers:
    - {name: once, image: example.test/once}
    - {name: beside, image: example.test/beside, restartPolicy: Always}
  containers:
    - name: engine
      image: example.test/engine
      resources: {limits: {nvidia.com/gpu: 8}}
      volumeMounts: [{name: weights, mountPath: /weights}]
  volumes: [{name: weights, persistentVolumeClaim: {claimName: weights}}]
"""


@pytest.fixture
def kubectl(shared: LocalCluster, toolbox: Toolbox) -> Iterator[Kubectl]:
    """Kubectl on a cluster that holds the objects for the length of a test."""
    kubectl = Kubectl(toolbox, shared)
    for objects in (MACHINES, WORK):
        kubectl("apply", "-f", "-", given=objects)
    yield kubectl
    # A machine that goes before its pods leaves them to a collector that waits for 40 seconds.
    for objects in (WORK, MACHINES):
        kubectl("delete", "--ignore-not-found", "--timeout=50s", "-f", "-", given=objects)


def listening(processes: Mapping[str, int]) -> set[str]:
    """The addresses that these processes listen on, as the system has them."""
    said = subprocess.run(
        ["ss", "-Hltnp"],  # noqa: S607  wherever the system has it
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {
        line.split()[3].rsplit(":", 1)[0]
        for line in said.splitlines()
        if any(f"pid={pid}," in line for pid in processes.values())
    }


@pytest.mark.skipif(shutil.which("ss") is None, reason="ss tells who listens where")
def test_nothing_listens_beyond_this_machine(shared: LocalCluster) -> None:
    assert listening(pids(shared)) == {"127.0.0.1"}


def test_files_are_their_owners_alone(shared: LocalCluster) -> None:
    layout = layout_of(shared)
    secret = [layout.kubeconfig, layout.record, *layout.pki.glob("*.key")]
    assert len(secret) == 4
    assert {file.stat().st_mode & 0o077 for file in secret} == {0}
    assert layout.cluster.stat().st_mode & 0o077 == 0


def test_etcd_answers_only_to_the_clusters_own_key(shared: LocalCluster) -> None:
    layout = layout_of(shared)
    port = ports_of(json.loads(layout.record.read_text())["block"])["etcd"]
    trust = ssl.create_default_context(cafile=layout.pki / "ca.crt")
    url = f"https://127.0.0.1:{port}/health"
    with pytest.raises(OSError, match=r"certificate required|reset by peer|alert"):
        urlopen(url, context=trust, timeout=5)
    trust.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    with urlopen(url, context=trust, timeout=5) as answer:
        assert json.load(answer)["health"] == "true"


def test_a_gpu_pod_on_a_simulated_machine_becomes_ready(kubectl: Kubectl) -> None:
    kubectl.wait("pod/engine", "condition=Ready")
    pod = json.loads(kubectl("get", "pod", "engine", "-o", "json"))
    assert pod["spec"]["nodeName"] == "gpu-0"
    assert pod["status"]["podIP"].startswith("10.244.")
    once, beside = pod["status"]["initContainerStatuses"]
    assert once["state"]["terminated"]["exitCode"] == 0
    assert "running" in beside["state"]
    kubectl.wait("endpoints/engine", "jsonpath={.subsets[0].addresses[0].ip}")


def test_a_machine_has_what_its_node_was_created_with(kubectl: Kubectl) -> None:
    kubectl.wait("node/gpu-0", "condition=Ready")
    node = json.loads(kubectl("get", "node", "gpu-0", "-o", "json"))["status"]
    assert (node["capacity"]["nvidia.com/gpu"], node["allocatable"]["cpu"]) == ("8", "95")


def test_a_node_without_the_annotation_is_left_to_its_own_kubelet(kubectl: Kubectl) -> None:
    kubectl.wait("node/gpu-0", "condition=Ready")
    real = json.loads(kubectl("get", "node", "real-0", "-o", "json"))["status"]
    assert not real.get("addresses")
    assert not [each for each in real.get("conditions", []) if each["status"] == "True"]


def test_only_a_load_balancer_gets_an_address_from_outside(kubectl: Kubectl) -> None:
    kubectl.wait("service/gateway", "jsonpath={.status.loadBalancer.ingress[0].ip}=192.0.2.1")
    assert not kubectl("get", "service", "engine", "-o", "jsonpath={.status.loadBalancer.ingress}")


@pytest.mark.parametrize(("claim", "size"), [("weights", "100Gi"), ("unused", "1Gi")])
def test_a_claim_gets_a_volume_of_its_size(kubectl: Kubectl, claim: str, size: str) -> None:
    kubectl.wait(f"pvc/{claim}", "jsonpath={.status.phase}=Bound")
    assert kubectl("get", "pvc", claim, "-o", "jsonpath={.status.capacity.storage}") == size


def test_a_job_completes_and_a_pod_that_must_go_on_does_not(kubectl: Kubectl) -> None:
    kubectl.wait("job/verify", "condition=Complete")
    kubectl.wait("pod/engine", "condition=Ready")
    assert kubectl("get", "pod", "engine", "-o", "jsonpath={.status.phase}") == "Running"


def test_what_is_deleted_goes_soon_and_takes_its_volume_along(kubectl: Kubectl) -> None:
    kubectl.wait("pod/engine", "condition=Ready")
    volume = kubectl("get", "pvc", "weights", "-o", "jsonpath={.spec.volumeName}")
    began = time.monotonic()
    kubectl("delete", "pod/engine", "pvc/weights", "--timeout=40s")
    kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=40s")
    assert time.monotonic() - began < 40, "its grace period of 600 seconds is not waited for"


@pytest.fixture
def strict(kubectl: Kubectl) -> Iterator[str]:
    """A namespace that enforces the restricted standard."""
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace/strict", "pod-security.kubernetes.io/enforce=restricted")
    yield "strict"
    kubectl("delete", "namespace/strict", "--timeout=40s")


def test_a_user_without_a_role_may_do_nothing(kubectl: Kubectl) -> None:
    refused = kubectl.run("get", "secrets", "--as=somebody")
    assert 'User "somebody" cannot list resource "secrets"' in refused.stderr


def test_pod_security_is_enforced(kubectl: Kubectl, strict: str) -> None:
    refused = kubectl.run("-n", strict, "run", "x", "--image=x", "--privileged")
    assert 'violates PodSecurity "restricted' in refused.stderr


def test_quotas_are_enforced(kubectl: Kubectl, strict: str) -> None:
    kubectl("-n", strict, "create", "quota", "one", "--hard=configmaps=1")
    # Every namespace has one already, with the cluster's certificate authority.
    kubectl("-n", strict, "wait", "quota/one", "--for=jsonpath={.status.used.configmaps}=1")
    refused = kubectl.run("-n", strict, "create", "configmap", "second")
    assert "exceeded quota" in refused.stderr


def test_a_machine_may_not_make_pods_of_its_own(kubectl: Kubectl) -> None:
    pod = kubectl("run", "x", "--image=x", "--dry-run=client", "-o", "json")
    node = ("--as=system:node:gpu-0", "--as-group=system:nodes")
    refused = kubectl.run("create", "--validate=false", "-f", "-", *node, given=pod)
    assert "can only create mirror pods" in refused.stderr
