"""Machines that exist, reached by SSH, in a Kubernetes cluster that exists."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_kubernetes

from tokenworks.errors import OperationError
from tokenworks.hosts.inventory import Access, Pool
from tokenworks.plan.types import ClusterPlan, GivenCertificate, Plan, PoolPlan
from tokenworks.platforms.load_balancer import PRIVATE_RANGES, LoadBalancer
from tokenworks.workspace import Workspace


def provider(cluster: ClusterPlan) -> pulumi_kubernetes.Provider:
    """The provider of the cluster; only the path of its credentials reaches the state."""
    return pulumi_kubernetes.Provider(
        "cluster",
        kubeconfig=str(Path(cluster.kubeconfig).expanduser()),
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )


def load_balancer(cluster: ClusterPlan) -> LoadBalancer:
    """The cluster's own class, open to private addresses only."""
    return LoadBalancer(
        class_name=cluster.load_balancer_class,
        annotations=cluster.load_balancer_annotations,
        source_ranges=PRIVATE_RANGES,
        seen_ranges=PRIVATE_RANGES,
        needs_node_ports=cluster.load_balancer_needs_node_ports,
    )


def certificate(workspace: Workspace, cluster: ClusterPlan) -> tuple[str, pulumi.Output[str]]:
    """Chain and private key of the gateway's certificate, the key from Pulumi's secrets.

    Raises:
        OperationError: none is given, as where an issuer in the cluster signs one.
    """
    return read_certificate(workspace, cluster.certificate, "cluster.certificate")


def read_certificate(
    workspace: Workspace, given: GivenCertificate | None, key: str
) -> tuple[str, pulumi.Output[str]]:
    """A chain from beside the environment and its key; ``key`` is where they can be named.

    Raises:
        OperationError: none is given.
    """
    if given is None:
        raise OperationError(
            "the gateway's certificate",
            reason="is not given with its key",
            remedy=f"set {key}, or let gateway.certificate_issuer sign one",
        )
    chain = (workspace.stacks / given.chain).read_text("utf-8")
    return chain, pulumi.Config().require_secret(given.key_secret)


def host_pool(workspace: Workspace, plan: Plan, pool: PoolPlan) -> Pool:
    """The machines of a pool with everything that a run on them needs.

    Raises:
        OperationError: a repository's key is not beside the lock, or the hosts' keys cannot be
            read.
    """
    hosts, access, cluster = pool.hosts, plan.access, plan.cluster
    if hosts is None or access is None or cluster is None:
        raise OperationError(
            f"pool {pool.name}",
            reason=f"it has no machines on platform {plan.platform}",
            remedy="use an environment of platform hosts",
        )
    names = {one.key_file for one in hosts.lock.repositories}
    return Pool(
        name=pool.name,
        hosts=hosts.machines,
        access=Access(
            user=access.user,
            known_hosts=_known_hosts(workspace.stacks / access.known_hosts),
            key_file=access.key_file,
        ),
        lock=hosts.lock,
        settings=hosts.settings,
        keys=repository_keys(workspace, pool.name, names),
        kubeconfig=cluster.kubeconfig,
    )


def _known_hosts(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise OperationError(
            "the keys of the hosts",
            reason=f"{file} cannot be read ({error.strerror})",
            remedy="write it with `ssh-keyscan`, and compare the fingerprints on the machines",
        ) from error


def repository_keys(workspace: Workspace, pool: str, names: set[str]) -> dict[str, str]:
    """Armoured keys of repositories by file name, as the lock names them.

    Raises:
        OperationError: one is not beside the lock.
    """
    folder = workspace.stacks / "hosts" / "keys"
    try:
        return {name: (folder / name).read_text("utf-8") for name in sorted(names)}
    except OSError as error:
        raise OperationError(
            f"keys of pool {pool}",
            reason=f"{error.filename} cannot be read ({error.strerror})",
            remedy="put the armoured public key there whose fingerprint the lock names",
        ) from error
