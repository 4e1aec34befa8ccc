"""Which security groups there are, and who may reach whom: from declared dependencies alone.

EKS makes one group more, the cluster's own, which lets the control plane and every node reach each
other; so no pod of one node group is cut off from those of another one (NVIDIA/aicr,
``eks-dynamo-networking.md``, where separate groups without such rules were).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.types import FirewallRule

HTTPS_PORT = 443
HTTPS = (HTTPS_PORT, HTTPS_PORT)
DEFAULT_PORTS = {"http": 80, "https": HTTPS_PORT}
NFS = (2049, 2049)
LUSTRE = ((988, 988), (1018, 1023))
"""docs.aws.amazon.com/fsx LustreGuide, limit-access-security-groups."""
ANYWHERE = "0.0.0.0/0"

CONTROL_PLANE, NODES, ENDPOINTS, WEIGHTS, BUILDER = (
    "control-plane",
    "nodes",
    "endpoints",
    "weights",
    "builder",
)


@dataclass(frozen=True, kw_only=True)
class Dependency:
    """One group, or a network, needs ports of another group; both ends get their rule from it.

    ``source`` is the name of a group or a CIDR. ``ports`` None means all of the protocol.
    """

    source: str
    target: str
    ports: tuple[int, int] | None
    because: str
    protocol: str = "tcp"


def groups(*, builds_images: bool) -> dict[str, str]:
    """Security groups of ours by name, each with what it is for."""
    found = {
        CONTROL_PLANE: "Interfaces of the Kubernetes API in this network",
        NODES: "Every node, beside the cluster's own group",
        ENDPOINTS: "Interfaces of AWS services in this network",
        WEIGHTS: "The file system that holds the weights",
    }
    return found | ({BUILDER: "Machines that images are made on"} if builds_images else {})


def dependencies(case: AwsCase, *, builds_images: bool) -> Iterator[Dependency]:
    """Who needs what of whom; what is not here is closed."""
    network = case.section.network
    for cidr in network.operators:
        yield Dependency(
            source=cidr, target=CONTROL_PLANE, ports=HTTPS, because="operators use the API"
        )
    yield Dependency(
        source=network.cidr,
        target=ENDPOINTS,
        ports=HTTPS,
        because="nodes and pods call AWS without leaving the network",
    )
    yield from _weights(case)
    if any(pool.efa for pool in case.loaded.environment.node_pools):
        yield Dependency(
            source=NODES,
            target=NODES,
            ports=None,
            protocol="-1",
            because="fabric adapters talk to each other past IP; a rule for 0.0.0.0/0 does not "
            "cover that (gardener-extension-provider-aws#1832)",
        )
    if builds_images:
        yield Dependency(
            source=BUILDER, target=ENDPOINTS, ports=HTTPS, because="Session Manager and S3"
        )


def _weights(case: AwsCase) -> Iterator[Dependency]:
    if case.section.weights.file_system == "efs":
        yield Dependency(source=NODES, target=WEIGHTS, ports=NFS, because="nodes mount weights")
        return
    for ports in LUSTRE:
        for source in (NODES, WEIGHTS):
            yield Dependency(
                source=source,
                target=WEIGHTS,
                ports=ports,
                because="nodes and servers of Lustre talk to the servers",
            )
        yield Dependency(
            source=WEIGHTS, target=NODES, ports=ports, because="servers of Lustre call back"
        )


def rules(case: AwsCase, *, builds_images: bool) -> tuple[FirewallRule, ...]:
    """Every rule: both ends of each dependency, and the ways out that nodes and builders have."""
    found: dict[FirewallRule, None] = {}
    for one in dependencies(case, builds_images=builds_images):
        for rule in _both_ends(one):
            found.setdefault(rule)
    for rule in _ways_out(case, builds_images=builds_images):
        found.setdefault(rule)
    return tuple(found)


def _both_ends(one: Dependency) -> Iterator[FirewallRule]:
    yield FirewallRule(
        group=one.target,
        direction="ingress",
        protocol=one.protocol,
        ports=one.ports,
        peer=one.source,
        because=one.because,
    )
    if "/" not in one.source:
        yield FirewallRule(
            group=one.source,
            direction="egress",
            protocol=one.protocol,
            ports=one.ports,
            peer=one.target,
            because=one.because,
        )


def _ways_out(case: AwsCase, *, builds_images: bool) -> Iterator[FirewallRule]:
    """S3's gateway endpoint has public addresses, so HTTPS may go anywhere that a route leads to.

    Where there is no way to the internet, routes lead to AWS's own services and nowhere else.
    """
    registry = urlsplit(f"https://{case.loaded.environment.image_registry or ''}")
    for port in sorted({HTTPS_PORT, registry.port or HTTPS_PORT}):
        yield _out(NODES, port, "registries, and S3 by its gateway endpoint, where routes lead")
    if builds_images:
        for port in sorted({HTTPS_PORT, *_repository_ports(case)}):
            yield _out(BUILDER, port, "repositories of packages, and S3 by its gateway endpoint")


def _repository_ports(case: AwsCase) -> Iterator[int]:
    """Ports of the repositories and proxies by which builders get their packages."""
    for pool in case.pools:
        if pool.hosts is None:
            continue
        proxy = pool.hosts.settings.apt_proxy
        for uri in (*(one.uri for one in pool.hosts.lock.repositories), proxy or ""):
            place = urlsplit(uri)
            if place.scheme in DEFAULT_PORTS:
                yield place.port or DEFAULT_PORTS[place.scheme]


def _out(group: str, port: int, because: str) -> FirewallRule:
    return FirewallRule(
        group=group,
        direction="egress",
        protocol="tcp",
        ports=(port, port),
        peer=ANYWHERE,
        because=because,
    )


def reaches(
    rules: tuple[FirewallRule, ...], source: str, target: str, port: int, protocol: str = "tcp"
) -> bool:
    """Whether both ends let a connection pass, as security groups decide it.

    ``source`` is a group of ours, or a CIDR exactly as a rule names it, which needs no way out.
    """

    def lets(group: str, direction: str, peers: set[str]) -> bool:
        return any(
            rule.group == group
            and rule.direction == direction
            and rule.peer in peers
            and rule.protocol in (protocol, "-1")
            and (rule.ports is None or rule.ports[0] <= port <= rule.ports[1])
            for rule in rules
        )

    inside = lets(target, "ingress", {source})
    return inside and ("/" in source or lets(source, "egress", {target, ANYWHERE}))
