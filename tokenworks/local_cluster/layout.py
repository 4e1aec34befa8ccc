"""Where a local cluster keeps everything, and which components it has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import ConfigError, Problem

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Component:
    """One process of the control plane, and how it says that it is well."""

    name: str
    port: str
    """Which of the cluster's ports it serves on."""
    scheme: str
    health: str
    """The path that answers 200 when the component is well."""
    signed: bool = False
    """Its certificate is signed by the cluster's authority; others make one in memory."""


COMPONENTS: Final[tuple[Component, ...]] = (
    Component(name="etcd", port="etcd", scheme="https", health="/health", signed=True),
    Component(
        name="kube-apiserver",
        port="kube_apiserver",
        scheme="https",
        health="/readyz",
        signed=True,
    ),
    Component(
        name="kube-controller-manager",
        port="kube_controller_manager",
        scheme="https",
        health="/healthz",
    ),
    Component(name="kube-scheduler", port="kube_scheduler", scheme="https", health="/readyz"),
    Component(name="kwok-controller", port="kwok_controller", scheme="http", health="/healthz"),
)
"""In the order in which they depend on each other; they are stopped the other way round."""

PORTS: Final = (
    "etcd",
    "etcd_peer",
    "kube_apiserver",
    "kube_controller_manager",
    "kube_scheduler",
    "kwok_controller",
)
"""What a cluster listens on, in the order of its block of ports."""

GATEWAY_OFFSET: Final = len(PORTS)
"""The port after those is the gateway's, where a real node serves one."""


@dataclass(frozen=True)
class Layout:
    """The files of an environment's cluster, under ``<checkout>/.tokenworks/<environment>``."""

    environment: str
    root: Path

    @classmethod
    def of(cls, environment: str, root: Path) -> Layout:
        """The layout in a checkout, its links followed: processes are told apart by their paths.

        Raises:
            ConfigError: the environment's name cannot be a folder's and a cluster's.
        """
        if not _NAME.fullmatch(environment):
            raise ConfigError(
                [
                    Problem(
                        key="environment",
                        given=repr(environment),
                        reason="is no name",
                        remedy="use lower-case letters, digits and hyphens",
                    )
                ]
            )
        return cls(environment, root.resolve())

    @property
    def name(self) -> str:
        """The cluster's name, also of its kubeconfig context."""
        return f"tokenworks-{self.environment}"

    @property
    def home(self) -> Path:
        """The environment's folder, which other things share."""
        return self.root / ".tokenworks" / self.environment

    @property
    def kubeconfig(self) -> Path:
        """For kubectl and Pulumi: administrator of this cluster."""
        return self.home / "kubeconfig"

    @property
    def cluster(self) -> Path:
        """Everything that belongs to the cluster alone; kwokctl takes it for the user's home."""
        return self.home / "cluster"

    @property
    def config(self) -> Path:
        """What kwokctl is told."""
        return self.cluster / "config.yaml"

    @property
    def egress(self) -> Path:
        """How the API server reaches a real node, where there is one."""
        return self.cluster / "egress.yaml"

    @property
    def record(self) -> Path:
        """What is remembered between runs."""
        return self.cluster / "record.json"

    @property
    def state(self) -> Path:
        """Where kwokctl puts this cluster, by its own rule."""
        return self.cluster / ".kwok" / "clusters" / self.name

    @property
    def data(self) -> Path:
        """What it has stored; kwokctl, which removes its state when it fails, has only a link."""
        return self.cluster / "etcd"

    @property
    def pki(self) -> Path:
        """The cluster's certificates and keys."""
        return self.state / "pki"

    @property
    def kwokctl(self) -> Path:
        """The path that kwokctl is started by: a link, so that it is known for this cluster's."""
        return self.cluster / "kwokctl"

    @property
    def kwokctl_log(self) -> Path:
        """What kwokctl said when it last started the cluster."""
        return self.cluster / "kwokctl.log"

    def program(self, component: str) -> Path:
        """The path that a component's process is started by, its own in every cluster."""
        return self.state / "bin" / component

    def log(self, component: str) -> Path:
        """A component's log, since its last start."""
        return self.state / "logs" / f"{component}.log"

    def pid_file(self, component: str) -> Path:
        """Where kwokctl writes a component's process id."""
        return self.state / "pids" / f"{component}.pid"
