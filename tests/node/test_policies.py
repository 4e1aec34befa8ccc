"""Every pod against every port of every other: exactly the planned ways are open.

Connections are tried from inside each pod's network, also from pods of strangers. A port counts as
open when it takes the connection, so that each of them really listens.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.harness import ENGINES, GATEWAY, Onenode

_TRY = """
import concurrent.futures, json, socket, sys
def opens(place):
    try:
        socket.create_connection(tuple(place), timeout=2).close()
        return True
    except OSError:
        return False
places = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(opens, places))))
"""

LISTENS = {
    "engine": (8000,),
    "gateway": (8443, 9902),
    "rate-limit": (8080,),
    "rate-limit-store": (6379,),
    "dns": (53,),
}
"""What each kind of pod listens on; the test of every pod against itself proves it."""

PLANNED = {
    ("gateway", "engine", 8000),
    ("gateway", "rate-limit", 8080),
    ("rate-limit", "rate-limit-store", 6379),
    *((kind, "dns", 53) for kind in ("gateway", "rate-limit", "dns", "stranger")),
    # It is open to callers from private addresses, which pods of other namespaces have, too.
    *((kind, "gateway", 8443) for kind in ("dns", "stranger")),
}
"""Who may call whom; only those resolve names who call somebody by one."""


def kind_of(pod: dict[str, Any]) -> str:
    labels = pod["metadata"].get("labels", {})
    if labels.get("k8s-app") == "kube-dns":
        return "dns"
    return str(labels.get("tokenworks.dev/role", "stranger"))


@pytest.fixture
def strangers(onenode: Onenode) -> Iterator[None]:
    """A pod of somebody else in every namespace where something listens, and in another."""
    onenode.settle()
    image = onenode.pod(ENGINES, onenode.engines()[0])["spec"]["containers"][0]["image"]
    places = ("default", ENGINES, GATEWAY)
    for namespace in places:
        onenode.kubectl("apply", "-f", "-", given=json.dumps(stranger(namespace, image)))
    for namespace in places:
        wait = ("wait", "pod/stranger", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
        onenode.kubectl(*wait)
    yield
    for namespace in places:
        onenode.kubectl("delete", "pod", "stranger", "-n", namespace, "--grace-period=0", "--force")


def stranger(namespace: str, image: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "nodeSelector": {"kubernetes.io/hostname": "this-machine-0"},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 4242,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "stranger",
                    "image": image,
                    "command": ["sleep", "600"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def tried(onenode: Onenode, pod: dict[str, Any], places: list[tuple[str, int]]) -> list[bool]:
    process = onenode.process(pod)
    done = subprocess.run(
        ["nsenter", f"--net=/proc/{process}/ns/net", sys.executable, "-c", _TRY],  # noqa: S607
        input=json.dumps(places),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[bool] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("strangers")
def test_exactly_the_planned_ways_between_pods_are_open(onenode: Onenode) -> None:
    pods = [
        pod
        for pod in onenode.get("pods", "--all-namespaces", "--field-selector=status.phase=Running")
        if pod["spec"]["nodeName"] == "this-machine-0"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    assert {kind_of(pod) for pod in pods} == {*LISTENS, "stranger"}
    targets = [(pod, port) for pod in pods for port in LISTENS.get(kind_of(pod), ())]
    places = [(pod["status"]["podIP"], port) for pod, port in targets]
    for source in pods:
        answers = tried(onenode, source, places)
        for (target, port), is_open in zip(targets, answers, strict=True):
            is_self = source["metadata"]["uid"] == target["metadata"]["uid"]
            closed = kind_of(source) == "stranger" and source["metadata"]["namespace"] != "default"
            way = (kind_of(source), kind_of(target), port)
            planned = is_self or (way in PLANNED and not closed)
            names = f"{source['metadata']['name']} to {target['metadata']['name']}:{port}"
            assert is_open == planned, f"{names} is {'open' if is_open else 'closed'}"
