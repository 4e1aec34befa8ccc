"""Making a node of this machine a part of its cluster: names for Services, labels, GPUs."""

from __future__ import annotations

import datetime
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.errors import OperationError
from tokenworks.local_node import layout as places
from tokenworks.local_node.machine import Machine
from tokenworks.templating import render

GPU_RESOURCE: Final = "nvidia.com/gpu"
_NAMES: Final = ("--namespace", "kube-system", "deployment/coredns")


@dataclass(frozen=True)
class Join:
    """One node and the cluster it joins, seen by the cluster's administrator."""

    kubectl: Path
    kubeconfig: Path
    machine: Machine

    def add_ons(self, image: str) -> None:
        """Create what every cluster has and the control plane does not bring.

        Raises:
            OperationError: the API server refuses it.
        """
        given = render(
            "node/add-ons.yaml.j2", name=self.machine.name, dns=places.DNS, coredns=image
        )
        self._run("apply", "--filename", "-", given=given)

    def is_ready(self, began: datetime.datetime) -> bool:
        """Whether the kubelet has said so since then: what it said before may be long untrue."""
        done = self._try("get", "node", self.machine.name, "--output=json")
        if done.returncode:
            return False
        conditions: list[dict[str, Any]] = json.loads(done.stdout)["status"].get("conditions", [])
        return any(
            one["type"] == "Ready" and one["status"] == "True" and _beat(one) >= began
            for one in conditions
        )

    def describe(self) -> None:
        """Give the node its labels and its GPUs, which no device plugin of NVIDIA's announces.

        The kubelet keeps a resource that it does not know, and offers it to pods.

        Raises:
            OperationError: the API server refuses it.
        """
        name = self.machine.name
        labels = {"metadata": {"labels": dict(self.machine.labels)}}
        self._run("patch", "node", name, "--patch", json.dumps(labels))
        gpus = {"status": {"capacity": {GPU_RESOURCE: str(self.machine.gpus)}}}
        self._run("patch", "node", name, "--subresource=status", "--patch", json.dumps(gpus))

    def resolves_names(self) -> bool:
        """Whether CoreDNS answers."""
        done = self._try("rollout", "status", *_NAMES, "--watch=false")
        return "successfully rolled out" in done.stdout

    def _run(self, *arguments: str, given: str | None = None) -> None:
        done = self._try(*arguments, given=given)
        if done.returncode:
            raise OperationError(
                f"joining {self.machine.name} to its cluster",
                reason=done.stderr.strip(),
                remedy="correct what it names and try again",
            )

    def _try(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )


def _beat(condition: dict[str, Any]) -> datetime.datetime:
    """When it was said; whole seconds, so that the one it began in counts."""
    said = datetime.datetime.fromisoformat(condition["lastHeartbeatTime"])
    return said + datetime.timedelta(seconds=1)
