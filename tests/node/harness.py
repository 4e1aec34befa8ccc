"""The environment `onenode` of a checkout of its own, and ways to talk to what runs in it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.local.checkout import Checkout
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node import LocalNode
from tokenworks.local_node.layout import NodeLayout

ENVIRONMENT = "onenode"
MODEL = "tiny-llama"
ENGINES = "tokenworks-engines"
GATEWAY = "tokenworks-gateway"
ROLE = "tokenworks.dev/role"
CHAT = "/v1/chat/completions"
PATIENCE_SECONDS = 240.0
READ_BYTES = 2**16

_CONTROL = """
import json, sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8001" + sys.argv[2], method=sys.argv[1])
request.data = sys.argv[3].encode() if len(sys.argv) > 3 else None
print(urllib.request.urlopen(request, timeout=10).read().decode())
"""


@dataclass(frozen=True)
class Onenode:
    """The environment, what `up` printed, and the machine as it was before."""

    checkout: Checkout
    said: str
    before: dict[str, frozenset[str]]

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl prints; an error fails the test with what it said."""
        done = self.try_kubectl(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout.strip()

    def try_kubectl(
        self, *arguments: str, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """How kubectl ended, whatever that was."""
        program = str(self.checkout.toolbox.path("kubectl"))
        config = f"--kubeconfig={self.checkout.kubeconfig(ENVIRONMENT)}"
        return self.checkout.run([program, config, *arguments], stdin=given, check=False)

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """Objects as `kubectl get` finds them."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", *arguments, "-ojson"))["items"]
        return found

    def engines(self) -> list[str]:
        """Names of the real engine pods that are not on their way out."""
        return sorted(self._staying(ENGINES, f"tokenworks.dev/model={MODEL},{ROLE}=engine"))

    def gateways(self) -> list[str]:
        """Names of the gateway's pods that are not on their way out."""
        return sorted(self._staying(GATEWAY, f"{ROLE}=gateway"))

    def _staying(self, namespace: str, selector: str) -> dict[str, bool]:
        """Pods that are not on their way out, and whether each is ready."""
        return {
            pod["metadata"]["name"]: is_ready(pod)
            for pod in self.get("pods", "-n", namespace, "-l", selector)
            if "deletionTimestamp" not in pod["metadata"]
        }

    def pod(self, namespace: str, name: str) -> dict[str, Any]:
        """One pod as it is now."""
        found: dict[str, Any] = json.loads(
            self.kubectl("get", "pod", "-n", namespace, name, "-ojson")
        )
        return found

    def control(self, pod: str, method: str, path: str, body: object = None) -> Any:
        """Ask the control port of a simulated engine, which listens on its pod's loopback."""
        given = [] if body is None else [json.dumps(body)]
        asked = ["python3", "-c", _CONTROL, method, path, *given]
        return json.loads(self.kubectl("exec", "-n", ENGINES, pod, "-c", "engine", "--", *asked))

    def busy(self, names: Sequence[str]) -> set[str]:
        """The engines that write an answer: busy whenever one looks, as no probe keeps them."""
        looks = [
            {name for name in names if self.control(name, "GET", "/state")["running"]}
            for _ in range(3)
        ]
        return set.intersection(*looks)

    @contextmanager
    def behaving(self, pod: str, **settings: object) -> Iterator[None]:
        """An engine with other settings; they are as before when its process still is the same."""
        was = self.control(pod, "GET", "/state")["settings"]
        self.control(pod, "PATCH", "/settings", settings)
        try:
            yield
        finally:
            self.control(pod, "PATCH", "/settings", {name: was[name] for name in settings})

    def process(self, pod: dict[str, Any], container: str | None = None) -> int:
        """The first process of a pod's container, as this machine sees it."""
        status = pod["status"]["containerStatuses"]
        found = next(one for one in status if container is None or one["name"] == container)
        name = found["containerID"].removeprefix("containerd://")
        for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            with contextlib.suppress(OSError):
                if name in (entry / "cgroup").read_text():
                    return int(entry.name)
        raise AssertionError(f"{name} has no process")

    def kill(self, namespace: str, pod: str, container: str) -> None:
        """End a container's process as a crash does."""
        os.kill(self.process(self.pod(namespace, pod), container), signal.SIGKILL)

    def freeze(self, namespace: str, pod: str, container: str) -> None:
        """Have a container's process hang: it answers nothing and hears no request to end."""
        os.kill(self.process(self.pod(namespace, pod), container), signal.SIGSTOP)

    @property
    def port(self) -> int:
        """The gateway's port on 127.0.0.1."""
        return LocalCluster(ENVIRONMENT, self.checkout.path).ports()["gateway"]

    @property
    def authority(self) -> Path:
        """The certificate that signs the gateway's."""
        return self.checkout.path / ".tokenworks" / ENVIRONMENT / "tls" / "ca.crt"

    def key(self, tenant: str = "search") -> str:
        """A tenant's key."""
        file = self.checkout.path / ".tokenworks" / ENVIRONMENT / "keys" / tenant
        return file.read_text("utf-8").split()[-1]

    def ask(self, *, key: str | None = None, stream: bool = False, **fields: object) -> Answer:
        """One chat on a connection of its own."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **fields}
        return self.call(
            "POST", CHAT, key=self.key() if key is None else key, body={**body, "stream": stream}
        )

    def call(self, method: str, path: str, *, key: str, body: object) -> Answer:
        """Any request; the key is left out where it is empty."""
        trust = ssl.create_default_context(cafile=self.authority)
        connection = http.client.HTTPSConnection("localhost", self.port, context=trust, timeout=60)
        headers = {"content-type": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        connection.request(method, path, json.dumps(body), headers)
        return Answer(connection, connection.getresponse())

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:.0f} s: {what}"
            time.sleep(1)

    def ready(self, pod: str) -> bool:
        """Whether an engine pod is ready."""
        return is_ready(self.pod(ENGINES, pod))

    def restarts(self, namespace: str, pod: str) -> int:
        """How often the container of a pod was started again."""
        (container,) = self.pod(namespace, pod)["status"]["containerStatuses"]
        return int(container["restartCount"])

    def settle(self) -> None:
        """Wait until there are two engines and two gateways, and all are ready."""
        selectors = (
            (ENGINES, f"tokenworks.dev/model={MODEL},{ROLE}=engine"),
            (GATEWAY, f"{ROLE}=gateway"),
        )

        def are_ready() -> bool:
            found = [self._staying(*each) for each in selectors]
            return all(len(pods) == 2 and all(pods.values()) for pods in found)

        self.until(are_ready, "two engines and two gateways are ready")

    def answers(self) -> bool:
        """Whether a chat is answered."""
        try:
            return self.ask().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    @property
    def node(self) -> int:
        """The process that everything on the node ends with."""
        found = LocalNode(ENVIRONMENT, self.checkout.path).pid()
        assert found is not None, "the node does not run"
        return found

    def crash(self) -> None:
        """End the node as a loss of its power does."""
        process = self.node
        os.kill(process, signal.SIGKILL)
        self.until(lambda: not Path(f"/proc/{process}").exists(), "the node is gone")

    @property
    def volume(self) -> Path:
        """The folder with every revision of the model."""
        pod = self.pod(ENGINES, self.engines()[0])
        (claim,) = [
            one["persistentVolumeClaim"]["claimName"]
            for one in pod["spec"]["volumes"]
            if one["name"] == "weights"
        ]
        volumes: Path = self.layout.volumes
        return volumes / ENGINES / str(claim)

    @property
    def layout(self) -> NodeLayout:
        """Where the node keeps everything."""
        return NodeLayout(Layout.of(ENVIRONMENT, self.checkout.path))


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@dataclass(frozen=True)
class Answer:
    """An answer that may still arrive."""

    connection: http.client.HTTPSConnection
    response: http.client.HTTPResponse

    @property
    def status(self) -> int:
        """HTTP's status."""
        return self.response.status

    def json(self) -> Any:
        """The whole body."""
        return json.loads(self.response.read())

    def events(self) -> Iterator[str]:
        """The data of each event as it arrives; raises what the connection raises."""
        rest = b""
        # `readline` looks ahead, and takes a connection that breaks then for the end of the answer.
        while piece := self.response.read1(READ_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    yield line.removeprefix(b"data: ").strip().decode()

    def ending(self) -> str:
        """The last event, or what the connection raised instead of it."""
        last = ""
        try:
            for event in self.events():
                last = event
        except (OSError, http.client.HTTPException) as error:
            return f"error: {error!r}"
        return last
