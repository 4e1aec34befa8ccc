"""The pod of one gateway: Envoy and the volumes it watches."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from tokenworks.components.workload import RESTRICTED, probes, restricted_pod
from tokenworks.plan.gateway_pods import HTTPS_PORT_NAME, READINESS_PORT_NAME, GatewayPods
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.render_gateway import (
    GATEWAY_MOUNTS,
    drain_command,
    envoy_arguments,
    start_command,
)

GATEWAY_USER = 101
"""The ``envoy`` user of the official image."""


@dataclass(frozen=True, kw_only=True)
class GatewayVolumes:
    """Names of the ConfigMaps and the Secrets that Envoy watches; None where one is not needed."""

    config: pulumi.Input[str]
    client_ca: pulumi.Input[str] | None
    keys: pulumi.Input[str]
    credentials: pulumi.Input[str] | None
    tls: pulumi.Input[str]


def gateway_pod(
    plan: GatewayPlan,
    pods: GatewayPods,
    *,
    selector: Mapping[str, str],
    priority_class: pulumi.Input[str],
    volumes: GatewayVolumes,
) -> dict[str, Any]:
    """Pod specification of one gateway, under Pod Security ``restricted``."""
    given = {"keys": volumes.keys, "tls": volumes.tls, "credentials": volumes.credentials}
    secrets = {name: secret for name, secret in given.items() if secret is not None}
    public = {"config": volumes.config}
    if volumes.client_ca is not None:
        public["client_ca"] = volumes.client_ca
    mounts = {_volume(name): getattr(GATEWAY_MOUNTS, name) for name in (*public, *secrets)}
    return {
        **restricted_pod(
            user=GATEWAY_USER, selector=selector, spread=pods.spread, priority_class=priority_class
        ),
        "termination_grace_period_seconds": plan.termination_grace_seconds.value,
        "containers": [_envoy(plan, pods, mounts)],
        "volumes": [
            *(
                {"name": _volume(name), "config_map": {"name": config_map}}
                for name, config_map in public.items()
            ),
            # Readable by the group that Envoy runs in, and by nobody else.
            *(
                {"name": name, "secret": {"secret_name": secret, "default_mode": 0o440}}
                for name, secret in secrets.items()
            ),
        ],
    }


def _volume(mount: str) -> str:
    """A volume's name, in which Kubernetes allows no underscore."""
    return mount.replace("_", "-")


def _envoy(plan: GatewayPlan, pods: GatewayPods, mounts: Mapping[str, str]) -> dict[str, Any]:
    workers = plan.workers.value
    memory = f"{plan.memory_mib.value}Mi"
    return {
        "name": "envoy",
        "image": plan.image.reference,
        "command": list(_command(pods.file_descriptors.value)),
        "args": list(envoy_arguments(plan)),
        "ports": [
            {"name": HTTPS_PORT_NAME, "container_port": plan.tls_port},
            {"name": READINESS_PORT_NAME, "container_port": plan.readiness_port},
        ],
        "security_context": RESTRICTED,
        "resources": {
            "requests": {"cpu": str(workers), "memory": memory},
            "limits": {"memory": memory},
        },
        **probes(pods.probes),
        "lifecycle": {"pre_stop": {"exec_": {"command": list(drain_command())}}},
        "volume_mounts": [
            {"name": name, "mount_path": path, "read_only": True} for name, path in mounts.items()
        ],
    }


def _command(file_descriptors: int) -> tuple[str, ...]:
    """Envoy, on condition that the node allows as many open files as its connections need.

    Kubernetes has no field for that. Envoy raises its own limit as far as the node allows, so only
    a node that allows too few has to be refused: there bash names the limit and ends.
    """
    start = shlex.join(start_command())
    return ("bash", "-c", f'ulimit -Sn {file_descriptors} && exec {start} "$@"', "envoy")
