"""Where a local node keeps everything, and the fixed addresses of its network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.local_cluster.layout import Layout

PODS: Final = "10.245.0.0/24"
"""The node's pods; simulated nodes have 10.244.0.0/16."""
ADDRESS: Final = "10.245.0.1"
"""The node itself, on the bridge that its pods are at."""
BRIDGE: Final = "pods0"
API_ADDRESS: Final = "192.0.2.2"
"""Where the node finds the API server: what it advertises, of TEST-NET-1 (RFC 5737)."""
HUB_ADDRESS: Final = "192.0.2.3"
"""Where the node serves files of models, standing in for a hub."""
LOAD_BALANCER: Final = "192.0.2.1"
"""The address that the stage of load balancers gives every one of them."""
DNS: Final = "10.96.0.10"
HTTPS_PORT: Final = 443
KUBELET_PORT: Final = 10250


@dataclass(frozen=True)
class NodeLayout:
    """The files of an environment's node, under ``<checkout>/.tokenworks/<environment>/node``."""

    cluster: Layout

    @property
    def root(self) -> Path:
        """Everything that belongs to the node alone."""
        return self.cluster.home / "node"

    @property
    def identity(self) -> str:
        """A name for what lies outside the folder, its own on this machine."""
        return f"{self.cluster.name}-{hashlib.sha256(str(self.root).encode()).hexdigest()[:8]}"

    @property
    def starter(self) -> Path:
        """The path that the node's first process is started by: a link, so that it is known."""
        return self.root / "bin" / "unshare"

    @property
    def config(self) -> Path:
        """What its programs read, mounted at ``/etc/tokenworks``."""
        return self.root / "config"

    @property
    def logs(self) -> Path:
        """What its programs said."""
        return self.root / "logs"

    @property
    def images(self) -> Path:
        """The containers' images and file systems."""
        return self.root / "containerd"

    @property
    def kubelet(self) -> Path:
        """The kubelet's folder, with the volumes of pods."""
        return self.root / "kubelet"

    @property
    def volumes(self) -> Path:
        """What claims are bound to, each in a folder of its own."""
        return self.root / "volumes"

    @property
    def merged(self) -> Path:
        """The root of the node's file system."""
        return self.root / "merged"

    @property
    def proxy(self) -> Path:
        """The socket where the API server asks for connections to the node and its pods."""
        return self.cluster.home / "node.sock"

    @property
    def record(self) -> Path:
        """What is remembered between runs."""
        return self.root / "record.json"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every folder that must be there before it starts."""
        names = ("bin", "upper", "work")
        own = tuple(self.root / name for name in names)
        return (*own, self.merged, self.config, self.logs, self.images, self.kubelet, self.volumes)
