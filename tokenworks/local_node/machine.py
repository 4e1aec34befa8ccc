"""What a local node is asked to be, and what its programs are told: plain values and text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node import layout as places
from tokenworks.local_node.cgroups import Cgroups
from tokenworks.local_node.identity import User
from tokenworks.local_node.layout import NodeLayout
from tokenworks.templating import TEMPLATES, render

ETC: Final = "/etc/tokenworks"
HUB: Final = "/srv/weights"
"""What the stand-in for a model hub serves."""
PYTHON: Final = "/usr/bin/python3"
PROGRAMS: Final = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "kubelet",
    "kube-proxy",
    "kube-router",
)
"""Tools on the node's PATH."""
PLUGINS: Final = ("bridge", "host-local", "loopback")
"""Tools that containerd runs to give pods a network."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The node as the scheduler sees it, of the instance type that the environment names.

    Its processors, memory and GPUs are claims: what asks for them here uses next to none.
    """

    name: str
    labels: Mapping[str, str]
    processors: int
    memory_mib: int
    gpus: int
    max_pods: int


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Ports of the host's loopback that lead to the node or from it."""

    api: int
    kwok: int
    gateway: int


@dataclass(frozen=True, kw_only=True)
class Descriptors:
    """What the wire inherits: the host's network, and sockets that listen there."""

    host_network: int
    gateway: int
    proxy: int


def users(machine: Machine) -> dict[str, User]:
    """The user that each program is to the API server."""
    return {
        "kubelet": User(name=f"system:node:{machine.name}", groups=("system:nodes",)),
        "kube-proxy": User(name="system:kube-proxy"),
        "kube-router": User(name="tokenworks:kube-router"),
    }


def config_files(machine: Machine, cluster: Layout, pause: str) -> dict[str, str]:
    """The files below ``/etc/tokenworks``, by name, but those with keys."""
    network = {"address": places.ADDRESS, "pods": places.PODS, "bridge": places.BRIDGE}
    return {
        "containerd.toml": render("node/containerd.toml.j2", pause=pause),
        "pods.conflist": render("node/cni.conflist.j2", **network),
        "kubelet.yaml": render(
            "node/kubelet.yaml.j2",
            address=places.ADDRESS,
            dns=places.DNS,
            max_pods=machine.max_pods,
        ),
        "kube-proxy.yaml": render("node/kube-proxy.yaml.j2", name=machine.name, **network),
        "resolv.conf": "",
        "ca.crt": (cluster.pki / "ca.crt").read_text("utf-8"),
        **{name: text for name, text in node_files().items() if name.endswith(".py")},
    }


def node_files() -> dict[str, str]:
    """What runs on the node and what it reads, as it stands in ``templates/node/``."""
    files = sorted((TEMPLATES / "node").iterdir())
    return {file.name: file.read_text("utf-8") for file in files if file.is_file()}


def kubeconfig(program: str, port: int) -> str:
    """A kubeconfig for one program of the node, beside its certificate and key."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": program,
        "contexts": [{"name": program, "context": {"cluster": "local", "user": program}}],
        "clusters": [
            {
                "name": "local",
                "cluster": {
                    "server": f"https://{places.API_ADDRESS}:{port}",
                    "certificate-authority": f"{ETC}/ca.crt",
                },
            }
        ],
        "users": [
            {
                "name": program,
                "user": {
                    "client-certificate": f"{ETC}/{program}.crt",
                    "client-key": f"{ETC}/{program}.key",
                },
            }
        ],
    }
    return json.dumps(content, indent=2)


def commands(machine: Machine) -> dict[str, tuple[str, ...]]:
    """The node's programs in the order of their start."""
    return {
        "wire": (PYTHON, f"{ETC}/wire.py", f"{ETC}/wire.json"),
        "hub": (PYTHON, f"{ETC}/hub.py", places.HUB_ADDRESS, "80", HUB),
        "containerd": ("containerd", "--config", f"{ETC}/containerd.toml"),
        "kubelet": (
            "kubelet",
            *("--config", f"{ETC}/kubelet.yaml"),
            *("--kubeconfig", f"{ETC}/kubelet.kubeconfig"),
            *("--hostname-override", machine.name),
            *("--node-ip", places.ADDRESS),
        ),
        "kube-proxy": ("kube-proxy", "--config", f"{ETC}/kube-proxy.yaml"),
        "kube-router": (
            "kube-router",
            *("--kubeconfig", f"{ETC}/kube-router.kubeconfig"),
            *("--hostname-override", machine.name),
            *("--run-firewall=true", "--run-router=false", "--run-service-proxy=false"),
            *("--service-cluster-ip-range", "10.96.0.0/12"),
            *("--metrics-addr", "127.0.0.1"),
            *("--health-port", "0"),
        ),
    }


def init_spec(machine: Machine, wire: tuple[int, ...]) -> dict[str, Any]:
    """What the node's first process does."""
    pods = f"{places.ADDRESS}/{places.PODS.rsplit('/', 1)[1]}"
    network = [
        ["link", "set", "lo", "up"],
        *(
            ["addr", "add", f"{address}/32", "dev", "lo"]
            for address in (places.API_ADDRESS, places.HUB_ADDRESS)
        ),
        ["link", "add", places.BRIDGE, "type", "bridge"],
        ["addr", "add", pods, "dev", places.BRIDGE],
        ["link", "set", places.BRIDGE, "up"],
        # Services have addresses that nobody has; rules of kube-proxy turn them into pods'.
        ["route", "add", "default", "dev", places.BRIDGE, "src", places.ADDRESS],
    ]
    return {
        "network": [["ip", *arguments] for arguments in network],
        "settings": {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"},
        "programs": [
            {"name": name, "command": command, "descriptors": wire if name == "wire" else ()}
            for name, command in commands(machine).items()
        ],
    }


def wire_spec(ports: Ports, descriptors: Descriptors) -> dict[str, Any]:
    """What passes between the node's network and the host's."""
    return {
        "host_network": descriptors.host_network,
        "inward": [[descriptors.gateway, [places.LOAD_BALANCER, places.HTTPS_PORT]]],
        "outward": [[[places.API_ADDRESS, ports.api], ["127.0.0.1", ports.api]]],
        "proxy": descriptors.proxy,
        "on_host": [["127.0.0.1", ports.kwok]],
    }


def enter_spec(
    machine: Machine,
    layout: NodeLayout,
    debian: Path,
    hub: Path,
    programs: Mapping[str, Path],
    cgroups: Cgroups,
) -> dict[str, Any]:
    """What is mounted before the first process takes over."""
    binds: list[tuple[str, str, bool]] = [
        (str(layout.config), ETC, False),
        (str(layout.logs), "/var/log/tokenworks", True),
        (str(layout.images), "/var/lib/containerd", True),
        (str(layout.kubelet), "/var/lib/kubelet", True),
        (str(layout.volumes), "/simulated", True),
        (str(hub), HUB, False),
        (str(layout.config / "resolv.conf"), "/etc/resolv.conf", False),
        (str(layout.config / "pods.conflist"), "/etc/cni/net.d/pods.conflist", False),
        *((str(programs[name]), f"/usr/local/bin/{name}", False) for name in PROGRAMS),
        *((str(programs[name]), f"/opt/cni/bin/{name}", False) for name in PLUGINS),
    ]
    return {
        "cgroups": cgroups.spec(),
        "root": str(debian),
        "merged": str(layout.merged),
        "upper": str(layout.root / "upper"),
        "work": str(layout.root / "work"),
        "binds": binds,
        "processors": machine.processors,
        "memory_mib": machine.memory_mib,
        "hostname": machine.name,
        "init": [PYTHON, f"{ETC}/init.py", f"{ETC}/init.json"],
    }
