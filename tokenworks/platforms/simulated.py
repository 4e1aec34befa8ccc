"""A local control plane: real scheduler and API, pretended nodes and containers."""

from __future__ import annotations

import pulumi_kubernetes

from tokenworks.errors import OperationError
from tokenworks.platforms.load_balancer import PRIVATE_RANGES, LoadBalancer
from tokenworks.workspace import Workspace

STORAGE_PROVISIONER = "tokenworks.dev/simulated"

LOAD_BALANCER = LoadBalancer(
    class_name="tokenworks.dev/simulated-internal",
    annotations={},
    source_ranges=PRIVATE_RANGES,
    seen_ranges=PRIVATE_RANGES,
    needs_node_ports=False,
)


def provider(workspace: Workspace, environment: str) -> pulumi_kubernetes.Provider:
    """The provider of an environment's own cluster.

    ConfigMaps and Secrets are updated in place: what must not change in place carries its content
    in its name, and what may is watched by whoever reads it.
    """
    return pulumi_kubernetes.Provider(
        "cluster",
        kubeconfig=str(workspace.kubeconfig(environment)),
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )


def certificate(workspace: Workspace, environment: str) -> tuple[str, str]:
    """Chain and private key of the gateway's certificate, signed by the environment's local CA."""
    folder = workspace.certificates(environment)
    try:
        return (folder / "tls.crt").read_text("utf-8"), (folder / "tls.key").read_text("utf-8")
    except FileNotFoundError as error:
        raise OperationError(
            f"certificate of {environment}",
            reason=f"{error.filename} does not exist",
            remedy=f"run `tokenworks up {environment}`, which makes a local CA and a certificate",
        ) from error
