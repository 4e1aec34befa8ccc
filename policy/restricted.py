"""Pod Security ``restricted``, field by field, except for what GPUs need.

Source: kubernetes.io/docs/concepts/security/pod-security-standards, and the admission plugin that
enforces it (kubernetes/kubernetes, ``staging/src/k8s.io/pod-security-admission/policy``). Two
things are allowed beyond it: the capability IPC_LOCK, with which RDMA pins the memory that GPUs
write to (docs.nvidia.com/networking, "RDMA shared device plugin"), and read-only image volumes,
from which weights are served. Left out is what ``policy.node_access`` and the rule about engines'
ports say already. Relaxations for user namespaces are not made: GPUs do not need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.objects import KubernetesObject
from policy.pods import PodSpec
from policy.resources import UNKNOWN, Body, Value, elements, is_body, number, peek

Keys = tuple[str | int, ...]

_CAPABILITIES: Final = frozenset({"NET_BIND_SERVICE", "IPC_LOCK"})
_VOLUMES: Final = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
        *("projected", "secret", "image"),
    }
)
_SECCOMP: Final = frozenset({"RuntimeDefault", "Localhost"})
_SELINUX_TYPES: Final = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_syncookies",
    }
)
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_HANDLERS: Final = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


@dataclass(frozen=True, kw_only=True)
class Breach:
    """One field that ``restricted`` does not allow as it is; ``given`` None: it is missing."""

    keys: Keys
    given: Value
    reason: str
    remedy: str


def breaches(thing: KubernetesObject, pod: PodSpec, *, whole: bool) -> Iterator[Breach]:
    """Yield every breach of a pod specification; UNKNOWN values are breaches that may be none.

    ``whole`` is false for a patch or a chart's values, where what is missing stands elsewhere.
    """
    context, keys = pod.body.get("securityContext"), (*pod.keys, "securityContext")
    yield from _common(context, keys)
    yield from _sysctls(context, keys)
    yield from _volumes(pod)
    yield from _annotations(thing, pod)
    for container_keys, container in pod.containers():
        yield from _container(container, container_keys, context, whole=whole)


def host_ports(pod: PodSpec) -> Iterator[Breach]:
    """Yield the ports of the node that containers take."""
    for keys, container in pod.containers():
        for index, port in elements(container.get("ports")):
            given = peek(port, "hostPort")
            if given is UNKNOWN or number(given) not in (None, 0):
                yield Breach(
                    keys=(*keys, "ports", index, "hostPort"),
                    given=given,
                    reason="takes a port of the node",
                    remedy="remove it, and use a Service",
                )


def _common(context: Value, keys: Keys) -> Iterator[Breach]:
    """Yield what neither a pod nor a container may say in its security context."""
    for name in ("user", "role"):
        given = peek(context, "seLinuxOptions", name)
        if context is not UNKNOWN and given not in (None, ""):
            yield Breach(
                keys=(*keys, "seLinuxOptions", name),
                given=given,
                reason="sets an SELinux identity of its own",
                remedy="remove it",
            )
    type_ = peek(context, "seLinuxOptions", "type")
    if context is not UNKNOWN and type_ is not None and not _is_in(type_, _SELINUX_TYPES):
        yield Breach(
            keys=(*keys, "seLinuxOptions", "type"),
            given=type_,
            reason="is not an SELinux type for containers",
            remedy="use container_t, or remove it",
        )
    profile = peek(context, "appArmorProfile", "type")
    if context is not UNKNOWN and profile is not None and not _is_in(profile, _SECCOMP):
        yield Breach(
            keys=(*keys, "appArmorProfile", "type"),
            given=profile,
            reason="turns AppArmor off",
            remedy="use RuntimeDefault, or remove it",
        )
    if number(peek(context, "runAsUser")) == 0:
        yield Breach(
            keys=(*keys, "runAsUser"),
            given=0,
            reason="is root",
            remedy="use the number of an ordinary user, such as 1000",
        )


def _sysctls(context: Value, keys: Keys) -> Iterator[Breach]:
    for index, sysctl in elements(peek(context, "sysctls")):
        name = peek(sysctl, "name")
        if not _is_in(name, _SYSCTLS):
            yield Breach(
                keys=(*keys, "sysctls", index, "name"),
                given=name,
                reason="is a kernel setting that reaches beyond the pod",
                remedy="remove it; set it on the node if all pods may have it",
            )


def _volumes(pod: PodSpec) -> Iterator[Breach]:
    for index, volume in elements(pod.body.get("volumes")):
        if not is_body(volume):
            continue
        types = [key for key, source in volume.items() if key != "name" and source is not None]
        if _VOLUMES.isdisjoint(types):  # others beside it are refused by the API server
            for type_ in sorted(_REFUSED_VOLUMES.intersection(types)):
                yield Breach(
                    keys=(*pod.keys, "volumes", index, type_),
                    given=None,
                    reason="is a volume that brings a part of the node or the network into the pod",
                    remedy="use a PersistentVolumeClaim, a ConfigMap, a Secret or an emptyDir",
                )


_REFUSED_VOLUMES: Final = frozenset(
    {
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume"),
        *("flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "iscsi", "nfs"),
        *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
        "vsphereVolume",
    }
)


def _annotations(thing: KubernetesObject, pod: PodSpec) -> Iterator[Breach]:
    """Yield AppArmor profiles of the form before Kubernetes v1.30, which is still obeyed."""
    keys = (*pod.labels_keys[:-1], "annotations")
    annotations = peek(thing.body, *keys)
    for name, value in annotations.items() if is_body(annotations) else ():
        allowed = isinstance(value, str) and (
            value in ("", "runtime/default") or value.startswith("localhost/")
        )
        if name.startswith(_APPARMOR_ANNOTATION) and not allowed:
            yield Breach(
                keys=(*keys, name),
                given=value,
                reason="turns AppArmor off",
                remedy="remove it",
            )


def _container(container: Body, keys: Keys, of_pod: Value, *, whole: bool) -> Iterator[Breach]:
    context, own = container.get("securityContext"), (*keys, "securityContext")
    if context is UNKNOWN:
        reason = "holds the container to less than restricted"
        yield Breach(keys=own, given=UNKNOWN, reason=reason, remedy="write it out")
        return
    yield from _common(context, own)
    yield from _required(context, own, of_pod, whole=whole)
    yield from _capabilities(context, own, whole=whole)
    mount = peek(context, "procMount")
    if mount not in (None, "Default"):
        yield Breach(
            keys=(*own, "procMount"),
            given=mount,
            reason="shows the pod what /proc hides",
            remedy="remove it",
        )
    yield from _hosts_of_handlers(container, keys)


def _required(context: Value, keys: Keys, of_pod: Value, *, whole: bool) -> Iterator[Breach]:
    """Yield what a container must say itself, or may leave to its pod, and does not."""
    non_root = _first(peek(context, "runAsNonRoot"), peek(of_pod, "runAsNonRoot"))
    if non_root is not True and (whole or non_root is not None):
        yield Breach(
            keys=(*keys, "runAsNonRoot"),
            given=non_root,
            reason="lets the container run as root",
            remedy="set runAsNonRoot: true in the pod's or the container's securityContext",
        )
    seccomp = _first(
        peek(context, "seccompProfile", "type"), peek(of_pod, "seccompProfile", "type")
    )
    if not _is_in(seccomp, _SECCOMP) and (whole or seccomp is not None):
        yield Breach(
            keys=(*keys, "seccompProfile", "type"),
            given=seccomp,
            reason="leaves every system call open",
            remedy="set seccompProfile.type: RuntimeDefault for the pod or the container",
        )
    escalation = peek(context, "allowPrivilegeEscalation")
    if escalation is not False and (whole or escalation is not None):
        yield Breach(
            keys=(*keys, "allowPrivilegeEscalation"),
            given=escalation,
            reason="lets a process gain rights that its parent does not have",
            remedy="set it to false",
        )


def _capabilities(context: Value, keys: Keys, *, whole: bool) -> Iterator[Breach]:
    dropped = peek(context, "capabilities", "drop")
    names = [name for _, name in elements(dropped)]
    unknown = dropped is UNKNOWN or UNKNOWN in names
    if "ALL" not in names and (whole or dropped is not None):
        yield Breach(
            keys=(*keys, "capabilities", "drop"),
            given=UNKNOWN if unknown else None,
            reason="leaves the container capabilities that it does not need",
            remedy="drop [ALL]",
        )
    for index, added in elements(peek(context, "capabilities", "add")):
        if not _is_in(added, _CAPABILITIES):
            yield Breach(
                keys=(*keys, "capabilities", "add", index),
                given=added,
                reason="adds a capability that neither serving nor GPUs need",
                remedy="remove it; NET_BIND_SERVICE, and IPC_LOCK for RDMA, may be added",
            )


def _hosts_of_handlers(container: Body, keys: Keys) -> Iterator[Breach]:
    """Yield probes and hooks that make the kubelet call another host (v1.34 and later)."""
    for handler in _HANDLERS:
        for kind in ("httpGet", "tcpSocket"):
            given = peek(container, *handler, kind, "host")
            if given not in (None, "") and peek(container, *handler) is not UNKNOWN:
                yield Breach(
                    keys=(*keys, *handler, kind, "host"),
                    given=given,
                    reason="makes the kubelet call a host of the pod's choosing",
                    remedy="remove it, and the kubelet calls the pod itself",
                )


def _first(own: Value, of_pod: Value) -> Value:
    return of_pod if own is None else own


def _is_in(value: Value, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words
