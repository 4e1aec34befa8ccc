"""What the Jobs of weights run: under Pod Security ``restricted``, once, and again after a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pulumi

from tokenworks.components.workload import ON_GPU_NODES, RESTRICTED, restricted_pod
from tokenworks.naming import ENGINE_USER, POOL_LABEL
from tokenworks.plan.spread import ENGINE_SPREAD
from tokenworks.plan.types import ClaimPlan, ModelPlan
from tokenworks.render import (
    COLLECT_SCRIPT,
    GATE_MANIFEST,
    POPULATE_SCRIPT,
    SETTINGS,
    SOURCE_MOUNT,
    TOKEN_MOUNT,
    TOOLS_MOUNT,
)

POPULATE: Final = "populate"
COLLECT: Final = "collect"
VOLUME_MOUNT: Final = "/weights"
REFUSED: Final = 3
"""Exit status of both tools for what another run cannot mend."""
GRACE_SECONDS: Final = 10
"""A tool ends at once when it is asked to."""


def populate_spec(
    model: ModelPlan,
    *,
    labels: Mapping[str, str],
    tools: str,
    token: str | None,
    priority_class: pulumi.Input[str],
) -> dict[str, Any]:
    """A Job that brings one revision onto the volume; ``tools`` and ``token`` are names."""
    mounts, volumes = _extras(model, token)
    return _spec(
        model,
        POPULATE,
        arguments=[POPULATE_SCRIPT, SETTINGS, GATE_MANIFEST],
        labels=labels,
        tools=tools,
        priority_class=priority_class,
        deadline_seconds=model.weights.populate.deadline_seconds.value,
        extras=(mounts, volumes),
    )


def collect_spec(
    model: ModelPlan,
    *,
    labels: Mapping[str, str],
    tools: str,
    priority_class: pulumi.Input[str],
) -> dict[str, Any]:
    """A Job that removes revisions which no release uses."""
    return _spec(
        model,
        COLLECT,
        arguments=[COLLECT_SCRIPT, SETTINGS],
        labels=labels,
        tools=tools,
        priority_class=priority_class,
        deadline_seconds=model.weights.populate.collect_deadline_seconds.value,
        extras=([], []),
    )


def _spec(
    model: ModelPlan,
    step: str,
    *,
    arguments: list[str],
    labels: Mapping[str, str],
    tools: str,
    priority_class: pulumi.Input[str],
    deadline_seconds: int,
    extras: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> dict[str, Any]:
    container = _container(model, step, arguments)
    container["volume_mounts"] += extras[0]
    return {
        "backoff_limit": model.weights.populate.retries.value,
        "active_deadline_seconds": deadline_seconds,
        # Two pods at once would wait for each other; the next comes when the last has ended.
        "pod_replacement_policy": "Failed",
        "pod_failure_policy": _failure_policy(step),
        "template": {
            "metadata": {"labels": dict(labels)},
            "spec": {
                **restricted_pod(
                    user=ENGINE_USER,
                    selector=labels,
                    spread=ENGINE_SPREAD,
                    priority_class=priority_class,
                ),
                "restart_policy": "Never",
                "termination_grace_period_seconds": GRACE_SECONDS,
                # In the engines' own image, on their nodes, which have to pull it anyway.
                "node_selector": {POOL_LABEL: model.node_pool},
                "tolerations": ON_GPU_NODES,
                "containers": [container],
                "volumes": [
                    {
                        "name": "weights",
                        "persistent_volume_claim": {"claim_name": model.weights.claim},
                    },
                    {"name": "tools", "config_map": {"name": tools}},
                    *extras[1],
                ],
            },
        },
    }


def _container(model: ModelPlan, step: str, arguments: list[str]) -> dict[str, Any]:
    plan = model.weights.populate
    memory = f"{plan.memory_mib.value}Mi"
    return {
        "name": step,
        "image": model.image.reference,
        "command": ["python3", *(f"{TOOLS_MOUNT}/{name}" for name in arguments), VOLUME_MOUNT],
        "security_context": RESTRICTED,
        "resources": {
            "requests": {"cpu": f"{plan.cpu_millicores.value}m", "memory": memory},
            "limits": {"memory": memory},
        },
        "volume_mounts": [
            {"name": "weights", "mount_path": VOLUME_MOUNT},
            {"name": "tools", "mount_path": TOOLS_MOUNT, "read_only": True},
        ],
    }


def _extras(
    model: ModelPlan, token: str | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Mounts and volumes of what a source needs: a token, or the volume that is the source."""
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    source = model.weights.populate.source
    if token is not None:
        mounts.append({"name": "token", "mount_path": TOKEN_MOUNT, "read_only": True})
        volumes.append({"name": "token", "secret": {"secret_name": token, "default_mode": 0o440}})
    if isinstance(source, ClaimPlan):
        mounts.append({"name": "source", "mount_path": SOURCE_MOUNT, "read_only": True})
        claim = {"claim_name": source.claim, "read_only": True}
        volumes.append({"name": "source", "persistent_volume_claim": claim})
    return mounts, volumes


def _failure_policy(step: str) -> dict[str, Any]:
    """A drained node costs no attempt, and what the source refuses takes no second one."""
    refused = {"container_name": step, "operator": "In", "values": [REFUSED]}
    return {
        "rules": [
            {
                "action": "Ignore",
                "on_pod_conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            {"action": "FailJob", "on_exit_codes": refused},
        ]
    }
