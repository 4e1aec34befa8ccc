"""The tools of a real node on this machine, in the manner of ``catalogue``."""

from __future__ import annotations

from typing import Final

from tokenworks.toolchain.kinds import Module, Package, Tool

KUBERNETES: Final = "1.35.4"
"""Also of the control plane: one set of programs."""
_CONTAINERD: Final = "2.2.9"
_CNI: Final = "1.9.1"
_COREDNS: Final = "1.15.0"
_KUBE_ROUTER: Final = "2.1.0"
_PAUSE: Final = "0.1.0"
_KUBERNETES_VERSION: Final = {
    "gitVersion": f"v{KUBERNETES}",
    "gitMajor": KUBERNETES.split(".")[0],
    "gitMinor": KUBERNETES.split(".")[1],
}
KUBERNETES_VARIABLES: Final = {
    f"{package}.{name}": value
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in _KUBERNETES_VERSION.items()
}
"""What the linker sets: without it the programs take themselves for development builds."""

_OWN_ROOT: Final = (
    "it runs in a root file system of its own, where only programs that need no library can: "
    "those that are built here"
)


def _of_node(
    name: str,
    module: str,
    version: str,
    *asks: str,
    accepts: str | None = None,
    says_version: bool = True,
) -> Tool:
    return Tool(
        name=name,
        module=module,
        version=version,
        accepts=accepts or f"=={version}",
        accepts_because=_OWN_ROOT,
        asks=asks,
        says_version=says_version,
    )


TOOLS: Final[tuple[Tool, ...]] = (
    _of_node("kubelet", "kubernetes-node", KUBERNETES, "--version"),
    _of_node("kube-proxy", "kubernetes-node", KUBERNETES, "--version"),
    _of_node("containerd", "containerd", _CONTAINERD, "--version"),
    _of_node("containerd-shim-runc-v2", "containerd", _CONTAINERD, "-v"),
    _of_node("ctr", "containerd", _CONTAINERD, "--version"),
    # Plugins that are called without a task say what they are, but not which release.
    _of_node("cni-bridge", "cni-plugins", _CNI, "--version", says_version=False),
    _of_node("cni-host-local", "cni-plugins", _CNI, "--version", says_version=False),
    _of_node("cni-loopback", "cni-plugins", _CNI, "--version", says_version=False),
    # It says its own path and a comma around the number.
    _of_node("kube-router", "kube-router", _KUBE_ROUTER, "--version", says_version=False),
    _of_node("coredns", "coredns", _COREDNS, "-version"),
    _of_node("tokenworks-pause", "pause", _PAUSE, "--version"),
)
"""Each runs on the node; the last two in containers."""

# coredns and kube-router were timed from nothing; of the others much was in Go's cache already, so
# that their times are estimates.
MODULES: Final[tuple[Module, ...]] = (
    Module(
        name="kubernetes-node",
        version=KUBERNETES,
        packages=tuple(
            Package(path=f"k8s.io/kubernetes/cmd/{name}", compiles_to=name, name=name)
            for name in ("kubelet", "kube-proxy")
        ),
        variables=KUBERNETES_VARIABLES,
        cold_seconds=150,
    ),
    Module(
        name="containerd",
        version=_CONTAINERD,
        packages=tuple(
            Package(
                path=f"github.com/containerd/containerd/v2/cmd/{name}",
                compiles_to=name,
                name=name,
            )
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        variables={"github.com/containerd/containerd/v2/version.Version": _CONTAINERD},
        cold_seconds=60,
    ),
    Module(
        name="cni-plugins",
        version=_CNI,
        packages=tuple(
            Package(
                path=f"github.com/containernetworking/plugins/plugins/{kind}/{name}",
                compiles_to=name,
                name=f"cni-{name}",
            )
            for kind, name in (("main", "bridge"), ("ipam", "host-local"), ("main", "loopback"))
        ),
        cold_seconds=15,
    ),
    Module(
        name="kube-router",
        version=_KUBE_ROUTER,
        packages=(
            Package(
                path="github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
                compiles_to="kube-router",
                name="kube-router",
            ),
        ),
        variables={"github.com/cloudnativelabs/kube-router/v2/pkg/version.Version": _KUBE_ROUTER},
        cold_seconds=115,
    ),
    Module(
        name="coredns",
        version=_COREDNS,
        packages=(
            Package(path="github.com/coredns/coredns", compiles_to="coredns", name="coredns"),
        ),
        cold_seconds=106,
    ),
    Module(
        name="pause",
        version=_PAUSE,
        packages=(Package(path=".", compiles_to="pause", name="tokenworks-pause"),),
        variables={"main.version": _PAUSE},
        cold_seconds=5,
    ),
)
