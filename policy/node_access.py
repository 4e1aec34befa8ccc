"""What hands a pod its node: privilege, the host's namespaces, its runtime, its root folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.images import ImageError, parse_image
from policy.objects import KubernetesObject
from policy.pods import PodSpec
from policy.resources import UNKNOWN, Value, elements, is_body, peek

Keys = tuple[str | int, ...]

HOST_NAMESPACES: Final = {
    "hostNetwork": "the node's network, past every NetworkPolicy",
    "hostPID": "the node's processes, and through them its files",
    "hostIPC": "the shared memory of every process of the node",
}
# Each of these alone is as good as privileged (man 7 capabilities).
_NODE_CAPABILITIES: Final = frozenset(
    {
        "ALL",
        "SYS_ADMIN",
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_PTRACE",
        "SYS_BOOT",
        "DAC_READ_SEARCH",
        "BPF",
    }
)
# Folders that hold a runtime's socket, credentials or everything: whoever mounts one has the
# node. Folders of logs are not among them (kubernetes.io/docs/concepts/storage/volumes/#hostpath).
_FOLDERS: Final = frozenset(
    {
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/sbin", "/usr"),
        *("/run", "/var", "/var/lib", "/var/lib/docker", "/var/lib/containerd", "/var/lib/rancher"),
    }
)
_TREES: Final = (
    "/proc",
    "/root",
    "/etc/kubernetes",
    "/etc/ssh",
    "/run/containerd",
    "/run/crio",
    "/run/docker.sock",
    "/run/k3s",
    "/run/podman",
    "/run/systemd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
)
# Images of the GPU system that must reach into a node to do their work, as DaemonSets
# (docs.nvidia.com/datacenter/cloud-native/gpu-operator; github.com/aws/eks-charts).
_GPU_SYSTEM: Final = re.compile(
    r"nvcr\.io/nvidia/(?:driver|k8s-device-plugin|gpu-feature-discovery|k8s-dra-driver-gpu"
    r"|k8s/(?:dcgm-exporter|container-toolkit)"
    r"|cloud-native/(?:dcgm|gpu-driver|gpu-operator-validator|k8s-driver-manager|k8s-mig-manager"
    r"|nvidia-fs|gdrdrv))"
    r"|registry\.k8s\.io/nfd/node-feature-discovery"
    r"|[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/eks/aws-efa-k8s-device-plugin"
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """One way to the node: the keys that open it, what they say, and what they open."""

    keys: Keys
    given: Value
    opens: str


def is_gpu_system_daemon(thing: KubernetesObject, pod: PodSpec) -> bool:
    """Return whether the pod is one that prepares GPUs: a DaemonSet of known images, all of them.

    The publisher's registry is part of the name, since anybody may call an image a device plugin.
    """
    images = [container.get("image") for _, container in pod.containers()]
    return thing.kind == "DaemonSet" and bool(images) and all(map(_is_gpu_system_image, images))


def node_access(pod: PodSpec) -> Iterator[Access]:
    """Yield every way in which the pod reaches its node, unknown ones with the value UNKNOWN."""
    for name, what in HOST_NAMESPACES.items():
        if _is_on(given := pod.body.get(name)):
            yield Access(keys=(*pod.keys, name), given=given, opens=what)
    yield from _windows(pod.body.get("securityContext"), (*pod.keys, "securityContext"))
    for name, listed in (*pod.lists(), ("volumes", pod.body.get("volumes"))):
        if listed is UNKNOWN or any(element is UNKNOWN for _, element in elements(listed)):
            yield Access(keys=(*pod.keys, name), given=UNKNOWN, opens="the node")
    for keys, container in pod.containers():
        yield from _container_access(container.get("securityContext"), (*keys, "securityContext"))
    for index, volume in elements(pod.body.get("volumes")):
        if is_body(volume):
            keys = (*pod.keys, "volumes", index, "hostPath")
            yield from host_folder(volume.get("hostPath"), keys)


def host_folder(host_path: Value, keys: Keys) -> Iterator[Access]:
    """Yield the folder of the node that a volume mounts, if it is one that opens the node."""
    path = peek(host_path, "path")
    if path is UNKNOWN or (isinstance(path, str) and _opens_the_node(path)):
        opens = "a folder of the node that holds its runtime, its credentials or everything"
        yield Access(keys=(*keys, "path"), given=path, opens=opens)


def _container_access(context: Value, keys: Keys) -> Iterator[Access]:
    opens = "every device and right of the node"
    if context is UNKNOWN:
        yield Access(keys=keys, given=UNKNOWN, opens=opens)
    elif _is_on(given := peek(context, "privileged")):
        yield Access(keys=(*keys, "privileged"), given=given, opens=opens)
    for index, capability in elements(peek(context, "capabilities", "add")):
        if capability is UNKNOWN or _capability_name(capability) in _NODE_CAPABILITIES:
            yield Access(
                keys=(*keys, "capabilities", "add", index),
                given=capability,
                opens="rights over the node that are as good as privileged",
            )
    yield from _windows(context, keys)


def _windows(context: Value, keys: Keys) -> Iterator[Access]:
    given = peek(context, "windowsOptions", "hostProcess") if is_body(context) else None
    if _is_on(given):
        opens = "the node, as a process of the host"
        yield Access(keys=(*keys, "windowsOptions", "hostProcess"), given=given, opens=opens)


def _capability_name(capability: Value) -> str:
    """Return a capability as Kubernetes writes it; runtimes also take ``CAP_SYS_ADMIN``."""
    return str(capability).upper().removeprefix("CAP_")


def _is_on(value: Value) -> bool:
    return value not in (None, False, "false")


def _opens_the_node(path: str) -> bool:
    """Return whether a path, however it is spelled, is one of those that open the node."""
    plain = posixpath.normpath(f"/{path.lstrip('/')}")
    if plain == "/var/run" or plain.startswith("/var/run/"):  # a link to /run
        plain = plain.removeprefix("/var")
    return plain in _FOLDERS or any(plain == t or plain.startswith(f"{t}/") for t in _TREES)


def _is_gpu_system_image(image: Value) -> bool:
    if not isinstance(image, str):
        return False
    try:
        return _GPU_SYSTEM.fullmatch(parse_image(image).name) is not None
    except ImageError:
        return False
