"""What containers may and may not do, seen from inside; and who is not let in at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.node.harness import ENGINES, GATEWAY, Onenode

_SEEN = """
import errno, json, os, sys
def refusal(folder):
    try:
        open(folder + "/x", "w").close()
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]
shm = os.statvfs("/dev/shm")
print(json.dumps({
    "user": os.getuid(),
    "refusals": {folder: refusal(folder) for folder in sys.argv[1:]},
    "shared_memory_mib": shm.f_blocks * shm.f_frsize // 2**20,
    "token": os.path.exists("/var/run/secrets/kubernetes.io"),
}))
"""
READ_ONLY = "EROFS"
"""Whose files they are does not matter then: root could not write there either."""
RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def test_an_engine_can_write_only_where_it_must(onenode: Onenode) -> None:
    name = next(each for each in onenode.engines() if onenode.ready(each))
    (gate,) = onenode.pod(ENGINES, name)["spec"]["initContainers"]
    weights = gate["command"][3]
    closed, own = ("/", "/usr", "/etc", "/models", weights), ("/tmp", "/cache")  # noqa: S108
    asked = ("exec", "-n", ENGINES, name, "-c", "engine", "--", "python3", "-c", _SEEN)
    assert json.loads(onenode.kubectl(*asked, *closed, *own)) == {
        "user": 1000,
        "refusals": {**dict.fromkeys(closed, READ_ONLY), **dict.fromkeys(own, "")},
        # Half of the memory of one L4, as planned.
        "shared_memory_mib": 11075,
        "token": False,
    }


@pytest.mark.parametrize(
    ("workload", "user"), [("deploy/gateway", 101), ("deploy/rate-limit-store", 999)]
)
def test_the_gateway_and_its_store_are_nobody_and_write_nothing(
    onenode: Onenode, workload: str, user: int
) -> None:
    closed = ("/", "/usr", "/etc", "/tmp")  # noqa: S108
    asked = ("exec", "-n", GATEWAY, workload, "--", "python3", "-c", _SEEN)
    seen = json.loads(onenode.kubectl(*asked, *closed))
    assert seen["user"] == user
    assert seen["refusals"] == dict.fromkeys(closed, READ_ONLY)
    assert seen["token"] is False


def test_no_container_is_root_or_could_become_it(onenode: Onenode) -> None:
    """As the kernel has it: no right of root's, none to be had, and files that nobody writes to."""
    seen = {}
    for namespace in (ENGINES, GATEWAY):
        for pod in onenode.get("pods", "-n", namespace, "--field-selector=status.phase=Running"):
            if pod["spec"]["nodeName"] == "this-machine-0":
                seen[pod["metadata"]["labels"]["tokenworks.dev/role"]] = rights(
                    onenode.process(pod)
                )
    allowed = {**dict.fromkeys(RIGHTS, 0), "no_new_privileges": "1", "seccomp": "2", "root": "ro"}
    roles = ("engine", "gateway", "rate-limit", "rate-limit-store")
    users = dict(zip(roles, (1000, 101, 65532, 999), strict=True))
    assert seen == {role: {**allowed, "user": users[role]} for role in roles}


def rights(process: int) -> dict[str, object]:
    place = Path(f"/proc/{process}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    mounts = [line.split(" ") for line in (place / "mountinfo").read_text().splitlines()]
    return {
        **{name: int(status[name], 16) for name in RIGHTS},
        "user": int(status["Uid"].split()[0]),
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "seccomp": status["Seccomp"].strip(),
        "root": next(fields[5].split(",")[0] for fields in mounts if fields[4] == "/"),
    }


def test_a_container_beyond_its_memory_limit_is_killed(onenode: Onenode) -> None:
    image = onenode.pod(ENGINES, onenode.engines()[0])["spec"]["containers"][0]["image"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "glutton", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "this-machine-0",
            "containers": [
                {
                    "name": "glutton",
                    "image": image,
                    "command": ["python3", "-c", "bytearray(256 * 2**20)"],
                    "resources": {"limits": {"memory": "64Mi"}},
                }
            ],
        },
    }
    onenode.kubectl("apply", "-f", "-", given=json.dumps(pod))
    try:
        onenode.until(
            lambda: onenode.pod("default", "glutton")["status"]["phase"] == "Failed", "it ended"
        )
        (status,) = onenode.pod("default", "glutton")["status"]["containerStatuses"]
        assert status["state"]["terminated"]["reason"] == "OOMKilled"
    finally:
        onenode.kubectl("delete", "pod", "-n", "default", "glutton", "--wait=false")


@pytest.mark.parametrize("namespace", [ENGINES, GATEWAY])
def test_a_pod_that_is_root_is_not_let_in(onenode: Onenode, namespace: str) -> None:
    arguments = ("--image=tokenworks.local/x", "--dry-run=server", "-n", namespace)
    done = onenode.try_kubectl("run", "intruder", *arguments)
    assert done.returncode != 0
    assert 'violates PodSecurity "restricted' in done.stderr
