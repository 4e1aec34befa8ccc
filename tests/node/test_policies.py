"""Every pod against every port of every other, and of the node: exactly the planned ways are open.

Connections are tried from inside each pod's network, also from pods of strangers. A port counts as
open when it takes the connection, so that each of them really listens.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.node.harness import ENGINES, GATEWAY, MODEL, ROLE, Onenode
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_node import layout as places
from tokenworks.naming import MODEL_LABEL, STEP_LABEL

_TRY = """
import concurrent.futures, json, socket, sys
def opens(place):
    try:
        socket.create_connection(tuple(place), 2, (sys.argv[1], 0)).close()
        return True
    except OSError:
        return False
places = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(opens, places))))
"""
_LISTEN = """
import signal, socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
signal.pause()
"""
SLEEPER_PORT = 8000
PUBLIC, METADATA = "203.0.113.1", "169.254.169.254"
"""An address of TEST-NET-3 (RFC 5737), and that of clouds' metadata services."""

LISTENS = {
    "engine": {8000},
    "gateway": {8443, 9902},
    "rate-limit": {8080},
    "rate-limit-store": {6379},
    "dns": {53, 8080, 8181},
    "weights": {SLEEPER_PORT},
    "caught": {SLEEPER_PORT},
    "stranger": {SLEEPER_PORT},
}
"""Ports that each kind of pod has open on addresses that others can reach, as the kernel says."""

FREE = ("dns", "stranger")
"""Pods of namespaces without policies."""
PLANNED = {
    ("gateway", "engine", 8000),
    ("gateway", "rate-limit", 8080),
    ("rate-limit", "rate-limit-store", 6379),
    *((kind, "dns", 53) for kind in ("gateway", "rate-limit")),
    ("weights", "hub", 80),
    # It is open to callers from private addresses, which pods of other namespaces have, too.
    *((kind, "gateway", 8443) for kind in FREE),
    *((kind, "dns", port) for kind in FREE for port in LISTENS["dns"]),
    *((kind, "stranger", SLEEPER_PORT) for kind in FREE),
    # What is open to them is there: for the others it is closed by a policy.
    *((kind, "hub", 80) for kind in FREE),
    *((kind, "api", 0) for kind in FREE),
    *((kind, "kubelet", places.KUBELET_PORT) for kind in FREE),
    *((kind, name, 80) for kind in FREE for name in ("public", "metadata")),
}
"""Who may call whom; only those resolve names who call somebody by one."""


def kind_of(pod: dict[str, Any]) -> str:
    """Its role; `caught` is a stranger in a namespace of ours, `weights` fills volumes."""
    metadata = pod["metadata"]
    labels = metadata.get("labels", {})
    if labels.get("k8s-app") == "kube-dns":
        return "dns"
    ours = metadata["namespace"] in (ENGINES, GATEWAY)
    return str(labels.get(ROLE, "caught" if ours else "stranger"))


def sleeper(
    name: str, namespace: str, image: str, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    """A pod that listens and does nothing else."""
    listen = ("python3", "-c", _LISTEN, "", str(SLEEPER_PORT))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": "this-machine-0"},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 4242,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "sleeper",
                    "image": image,
                    "command": listen,
                    "readinessProbe": {"tcpSocket": {"port": SLEEPER_PORT}, "periodSeconds": 1},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def pods(onenode: Onenode, condemned: object) -> Iterator[list[dict[str, Any]]]:
    """Every pod of the node, and beside them strangers and one like those that fill volumes.

    Meanwhile the kubelet finds out which of ours hang, which needs none of this.
    """
    image = onenode.pod(ENGINES, onenode.engines()[0])["spec"]["containers"][0]["image"]
    spaces = ("default", "kube-system", ENGINES, GATEWAY)
    labels = {MODEL_LABEL: MODEL, ROLE: "weights", STEP_LABEL: "populate"}
    made = [sleeper("sleeper", space, image) for space in spaces]
    made.append(sleeper("sleeper-of-weights", ENGINES, image, labels))
    onenode.kubectl("apply", "-f", "-", given=json.dumps(listed(made)))
    try:
        for pod in made:
            name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
            wait = ("--for=condition=Ready", "--timeout=60s")
            onenode.kubectl("wait", f"pod/{name}", "-n", space, *wait)
        found = onenode.get("pods", "--all-namespaces", "--field-selector=status.phase=Running")
        yield [
            pod
            for pod in found
            if pod["spec"]["nodeName"] == "this-machine-0"
            and "deletionTimestamp" not in pod["metadata"]
        ]
    finally:
        onenode.kubectl("delete", "--wait=false", "-f", "-", given=json.dumps(listed(made)))


def listed(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


@pytest.fixture(scope="module")
def elsewhere(onenode: Onenode) -> Iterator[None]:
    """Somebody who listens on addresses outside the cluster, which the node itself has meanwhile.

    So nothing leaves this machine, and what cannot connect was kept from it.
    """
    node = str(onenode.node)
    inside = ("nsenter", "--target", node, "--net")
    change = (*inside, "--mount", "--root", "--wd=/", "ip", "address")
    listening = []
    try:
        for address in (PUBLIC, METADATA):
            subprocess.run([*change, "add", f"{address}/32", "dev", "lo"], check=True)
            serve = (sys.executable, "-c", _LISTEN, address, "80")
            listening.append(subprocess.Popen([*inside, *serve]))
        onenode.until(
            lambda: {(PUBLIC, 80), (METADATA, 80)} <= listeners(onenode.node), "they listen"
        )
        yield
    finally:
        for process in listening:
            process.kill()
            process.wait()
        for address in (PUBLIC, METADATA):
            subprocess.run([*change, "delete", f"{address}/32", "dev", "lo"], check=False)


def tried(process: int, to: list[tuple[str, int]], source: str = "") -> list[bool]:
    """Which of some places take a connection from a process's network."""
    done = subprocess.run(
        ["nsenter", f"--net=/proc/{process}/ns/net", sys.executable, "-c", _TRY, source],  # noqa: S607
        input=json.dumps(to),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[bool] = json.loads(done.stdout)
    return found


def listeners(process: int) -> set[tuple[str, int]]:
    """Where somebody listens for TCP in a process's network: proc_net_tcp.rst of the kernel."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, port = local.split(":")
                found.add((str(address_of(address)), int(port, 16)))
    return found


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address of words that each are in the byte order of the machine."""
    words = (bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8))
    found = ipaddress.ip_address(b"".join(word[::-1] for word in words))
    return getattr(found, "ipv4_mapped", None) or found


def reachable(found: set[tuple[str, int]]) -> set[int]:
    """Ports that are open on other addresses than loopback's."""
    return {port for address, port in found if not ipaddress.ip_address(address).is_loopback}


def test_pods_listen_where_it_is_planned_and_nowhere_else(
    onenode: Onenode, pods: list[dict[str, Any]]
) -> None:
    assert {kind_of(pod) for pod in pods} == {*LISTENS}
    for pod in pods:
        found = reachable(listeners(onenode.process(pod)))
        assert found == LISTENS[kind_of(pod)], pod["metadata"]["name"]


@pytest.mark.usefixtures("elsewhere")
def test_exactly_the_planned_ways_are_open(onenode: Onenode, pods: list[dict[str, Any]]) -> None:
    api = LocalCluster("onenode", onenode.checkout.path).ports()["kube_apiserver"]
    targets = [
        (kind_of(pod), pod["status"]["podIP"], port)
        for pod in pods
        for port in sorted(LISTENS[kind_of(pod)])
    ]
    targets += [
        ("hub", places.HUB_ADDRESS, 80),
        ("api", places.API_ADDRESS, api),
        ("kubelet", places.ADDRESS, places.KUBELET_PORT),
        ("public", PUBLIC, 80),
        ("metadata", METADATA, 80),
    ]
    to = [(address, port) for _, address, port in targets]
    with ThreadPoolExecutor(len(pods)) as pool:
        answers = pool.map(lambda pod: tried(onenode.process(pod), to), pods)
    wrong = []
    for source, opens in zip(pods, answers, strict=True):
        for (kind, address, port), is_open in zip(targets, opens, strict=True):
            is_self = address == source["status"]["podIP"]
            way = (kind_of(source), kind, 0 if kind == "api" else port)
            if is_open != (is_self or way in PLANNED):
                state = "open" if is_open else "closed"
                wrong.append(f"{kind_of(source)} to {kind} at {address}:{port} is {state}")
    assert not wrong


@pytest.mark.usefixtures("elsewhere")
def test_the_one_load_balancer_lets_private_addresses_in_and_is_nowhere_else(
    onenode: Onenode,
) -> None:
    services = onenode.get("services", "--all-namespaces")
    (balancer,) = [one for one in services if one["spec"]["type"] != "ClusterIP"]
    assert balancer["metadata"]["namespace"] == GATEWAY
    ranges = balancer["spec"]["loadBalancerSourceRanges"]
    assert ranges
    assert all(ipaddress.ip_network(one).is_private for one in ranges)
    assert all("nodePort" not in port for port in balancer["spec"]["ports"])
    door = [(places.LOAD_BALANCER, places.HTTPS_PORT)]
    assert tried(onenode.node, door, places.ADDRESS) == [True]
    assert tried(onenode.node, door, PUBLIC) == [False]
    # On the machine itself it is a port of loopback alone.
    assert {at for at, port in listeners(os.getpid()) if port == onenode.port} == {"127.0.0.1"}
