"""The pod of one engine replica: weights gate, engine, shared memory, caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from tokenworks.components.workload import ON_GPU_NODES, RESTRICTED, probe, restricted_pod
from tokenworks.naming import ENGINE_USER, GPU_RESOURCE, POOL_LABEL
from tokenworks.plan.model import CACHE_MOUNT, CONFIG_MOUNT
from tokenworks.plan.spread import ENGINE_SPREAD
from tokenworks.plan.types import HTTP_PORT_NAME, ModelPlan
from tokenworks.render import GATE_MANIFEST, GATE_SCRIPT

GATE_MOUNT = "/etc/weights-gate"


def engine_pod(
    model: ModelPlan,
    *,
    selector: Mapping[str, str],
    priority_class: pulumi.Input[str],
    config: pulumi.Input[str],
    weights_claim: pulumi.Input[str],
    weights_gate: pulumi.Input[str],
) -> dict[str, Any]:
    """Pod specification of one replica, under Pod Security ``restricted``."""
    runtime_class = model.runtime_class.value
    return {
        **restricted_pod(
            user=ENGINE_USER,
            selector=selector,
            spread=ENGINE_SPREAD,
            priority_class=priority_class,
        ),
        **({"runtime_class_name": runtime_class} if runtime_class else {}),
        "termination_grace_period_seconds": model.termination_grace_seconds.value,
        "node_selector": {POOL_LABEL: model.node_pool, "nvidia.com/gpu.product": model.gpu_product},
        "tolerations": ON_GPU_NODES,
        "init_containers": [_gate(model)],
        "containers": [_engine(model)],
        "volumes": _volumes(model, config, weights_claim, weights_gate),
    }


def _gate(model: ModelPlan) -> dict[str, Any]:
    """Checks the weights in the engine's own image, which the node has to pull anyway."""
    memory = f"{model.weights_gate_memory_mib.value}Mi"
    return {
        "name": "weights-gate",
        "image": model.image.reference,
        "command": [
            "python3",
            f"{GATE_MOUNT}/{GATE_SCRIPT}",
            f"{GATE_MOUNT}/{GATE_MANIFEST}",
            model.weights.path,
            str(model.weights_gate_threads.value),
        ],
        "security_context": RESTRICTED,
        "resources": {
            "requests": {
                "cpu": f"{model.weights_gate_cpu_millicores.value}m",
                "memory": memory,
            },
            "limits": {"memory": memory},
        },
        "volume_mounts": [
            {"name": "weights", "mount_path": model.weights.mount_path, "read_only": True},
            {"name": "weights-gate", "mount_path": GATE_MOUNT, "read_only": True},
        ],
    }


def _engine(model: ModelPlan) -> dict[str, Any]:
    gpus = str(model.gpus_per_replica)
    memory = f"{model.host_memory_mib.value}Mi"
    return {
        "name": "engine",
        "image": model.image.reference,
        "command": list(model.command),
        "env": [{"name": k, "value": v} for k, v in model.environment_variables.items()],
        "ports": [{"name": HTTP_PORT_NAME, "container_port": model.port}],
        "security_context": RESTRICTED,
        "resources": {
            "requests": {
                "cpu": f"{model.cpu_millicores.value}m",
                "memory": memory,
                GPU_RESOURCE: gpus,
            },
            "limits": {"memory": memory, GPU_RESOURCE: gpus},
        },
        "startup_probe": probe(model.startup_probe.value),
        "readiness_probe": probe(model.readiness_probe.value),
        "liveness_probe": probe(model.liveness_probe.value),
        "lifecycle": {"pre_stop": {"sleep": {"seconds": model.drain_seconds.value}}},
        "volume_mounts": [
            {"name": "weights", "mount_path": model.weights.mount_path, "read_only": True},
            {"name": "config", "mount_path": CONFIG_MOUNT, "read_only": True},
            {"name": "shared-memory", "mount_path": "/dev/shm"},  # noqa: S108
            {"name": "cache", "mount_path": CACHE_MOUNT},
            {"name": "scratch", "mount_path": "/tmp"},  # noqa: S108
        ],
    }


def _volumes(
    model: ModelPlan,
    config: pulumi.Input[str],
    weights_claim: pulumi.Input[str],
    weights_gate: pulumi.Input[str],
) -> list[dict[str, Any]]:
    return [
        {
            "name": "weights",
            "persistent_volume_claim": {"claim_name": weights_claim, "read_only": True},
        },
        {"name": "weights-gate", "config_map": {"name": weights_gate}},
        {"name": "config", "config_map": {"name": config}},
        {
            "name": "shared-memory",
            "empty_dir": {"medium": "Memory", "size_limit": f"{model.shared_memory_mib.value}Mi"},
        },
        {"name": "cache", "empty_dir": {"size_limit": f"{model.cache_volume_gib.value}Gi"}},
        {
            "name": "scratch",
            "empty_dir": {"size_limit": f"{model.scratch_volume_gib.value}Gi"},
        },
    ]
