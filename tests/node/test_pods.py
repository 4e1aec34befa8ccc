"""What containers may and may not do, seen from inside; and who is not let in at all."""

from __future__ import annotations

import json

import pytest

from tests.node.harness import ENGINES, GATEWAY, Onenode

_SEEN = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def writes(folder):
    try:
        open(folder + "/x", "w").close()
        return True
    except OSError:
        return False
shm = os.statvfs("/dev/shm")
print(json.dumps({
    "user": os.getuid(),
    "capabilities": int(status["CapEff"], 16),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "writes": [f for f in ("/", "/usr", "/models", "/etc", "/tmp", "/cache") if writes(f)],
    "weights": writes("/models/tiny-llama"),
    "shared_memory_mib": shm.f_blocks * shm.f_frsize // 2**20,
    "token": os.path.exists("/var/run/secrets/kubernetes.io"),
}))
"""


def test_an_engine_can_write_only_where_it_must(onenode: Onenode) -> None:
    name = onenode.engines()[0]
    asked = ("exec", "-n", ENGINES, name, "-c", "engine", "--", "python3", "-c", _SEEN)
    seen = json.loads(onenode.kubectl(*asked))
    assert seen == {
        "user": 1000,
        "capabilities": 0,
        "no_new_privileges": "1",
        "seccomp": "2",
        "writes": ["/tmp", "/cache"],  # noqa: S108  its own volumes
        "weights": False,
        # Half of the memory of one L4, as planned.
        "shared_memory_mib": 11075,
        "token": False,
    }


@pytest.mark.parametrize(
    ("workload", "user"), [("deploy/gateway", "101"), ("deploy/rate-limit-store", "999")]
)
def test_the_gateway_and_its_store_are_nobody_and_write_nothing(
    onenode: Onenode, workload: str, user: str
) -> None:
    script = (
        "id -u; for file in /x /usr/x /etc/x; do { : >$file; } 2>/dev/null && echo $file; done; :"
    )
    said = onenode.kubectl("exec", "-n", GATEWAY, workload, "--", "bash", "-c", script)
    assert said.split() == [user]


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
