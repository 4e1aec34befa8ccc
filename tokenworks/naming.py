"""Names and labels: the same environment gives the same names, whoever creates it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

ENGINES_NAMESPACE = "tokenworks-engines"
ENGINE_USER = 1000
"""User and group of engines, and of whoever writes what they read."""
GATEWAY_NAMESPACE = "tokenworks-gateway"

ENVIRONMENT_LABEL = "tokenworks.dev/environment"
MODEL_LABEL = "tokenworks.dev/model"
RELEASE_LABEL = "tokenworks.dev/release"
ROLE_LABEL = "tokenworks.dev/role"
STEP_LABEL = "tokenworks.dev/step"
POOL_LABEL = "tokenworks.dev/node-pool"

ENGINE_ROLE = "engine"
GATEWAY_ROLE = "gateway"
WEIGHTS_ROLE = "weights"
RATE_LIMIT_ROLE = "rate-limit"
RATE_LIMIT_STORE_ROLE = "rate-limit-store"

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TAINT_VALUE = "present"

NVIDIA_RUNTIME = "nvidia"
"""Name of the container runtime in containerd's configuration, and of its RuntimeClass."""

WEIGHTS_STORAGE_CLASS = "tokenworks-weights"

GATEWAY_SERVICE = "gateway"
RATE_LIMIT_SERVICE = "rate-limit"
RATE_LIMIT_STORE_SERVICE = "rate-limit-store"


def content_hash(content: Any) -> str:
    """Ten hexadecimal digits that change whenever the content does."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def labels(environment: str, *, name: str, role: str, model: str | None = None) -> dict[str, str]:
    """The labels that every object of ours carries; ``name`` is what the object is part of."""
    common = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": f"{environment}-{model or name}",
        "app.kubernetes.io/component": role,
        "app.kubernetes.io/part-of": "tokenworks",
        "app.kubernetes.io/managed-by": "pulumi",
        ENVIRONMENT_LABEL: environment,
        ROLE_LABEL: role,
    }
    return common | ({MODEL_LABEL: model} if model else {})


def cluster_name(environment: str) -> str:
    """Name of an environment's EKS cluster, which its controllers write into their tags."""
    return f"tokenworks-{environment}"


def engine_service(model: str) -> str:
    """Name of the Service in front of a model's replicas."""
    return model


def engine_host(model: str) -> str:
    """DNS name under which the gateway finds the replicas of a model."""
    return f"{engine_service(model)}.{ENGINES_NAMESPACE}.svc.cluster.local"


def gateway_host(service: str) -> str:
    """DNS name of a service that the gateway itself needs."""
    return f"{service}.{GATEWAY_NAMESPACE}.svc.cluster.local"


def node_name(pool: str, index: int) -> str:
    """Name of one simulated node."""
    return f"{pool}-{index}"


def weights_claim(model: str, size_gib: int) -> str:
    """Name of the claim that holds a model's revisions.

    Its size is part of it: a claim cannot shrink, and may grow on some storage only, so another
    size is another claim, which is filled before the first one goes.
    """
    return f"{model}-weights-{size_gib}gi"


def weights_revision(revision: str, digest: str) -> str:
    """Folder of one revision on a volume: for readers the commit, for programs the content."""
    return f"{revision[:12]}-{digest[:12]}"
