"""What a plan is made of: plain frozen data, each decision beside its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tokenworks.engines.tensorrt_llm import MemoryBudget
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.instances import Instance
from tokenworks.sizing.start_up import StartUp

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Decided(Generic[T_co]):
    """A value that was decided, and why."""

    value: T_co
    because: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """A container image under its tag and the digest that the lock gives for it."""

    repository: str
    tag: str
    digest: str

    @property
    def reference(self) -> str:
        """``repository:tag@sha256:…``: the digest decides, the tag is for readers."""
        return f"{self.repository}:{self.tag}@{self.digest}"


@dataclass(frozen=True, kw_only=True)
class GatewayRoute:
    """Where the requests for one model go: an engine Service inside the cluster."""

    model: str
    host: str
    port: int
    max_concurrent_requests: int


@dataclass(frozen=True, kw_only=True)
class TenantPlan:
    """A caller, and the configuration keys under which its API keys are kept as Pulumi secrets."""

    name: str
    key_secrets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GatewayPlan:
    """The one door: TLS, keys, an allow-list of paths, and a route for each model."""

    hostname: str
    image: Image
    replicas: Decided[int]
    tenants: tuple[TenantPlan, ...]
    routes: tuple[GatewayRoute, ...]
    allowed_paths: tuple[str, ...]
    max_request_body_bytes: Decided[int]
    max_request_seconds: Decided[int]
    stream_idle_seconds: Decided[int]
    tls_port: int
    admin_port: int
    readiness_port: int
    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]
    workers: Decided[int]
    memory_mib: Decided[int]


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """GPU nodes of one kind, and how many of their GPUs are spoken for."""

    name: str
    instance: Instance
    gpu: Gpu
    driver_version: str
    nodes: int
    gpus_used: int

    @property
    def gpus(self) -> int:
        """All GPUs of the pool."""
        return self.nodes * self.instance.gpu_count


@dataclass(frozen=True, kw_only=True)
class WeightsPlan:
    """The files of one model: what they are, and where a pod finds them."""

    repository: str
    revision: str
    digest: str
    files: tuple[tuple[str, int, str], ...]
    total_bytes: int
    claim: str
    mount_path: str


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One HTTP probe of the kubelet."""

    path: str
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """How a Deployment replaces its pods."""

    max_surge: int
    max_unavailable: int


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """Everything about one served model: what runs, where, how large and how it rolls."""

    name: str
    engine: str
    engine_version: str
    image: Image
    node_pool: str
    gpu_product: str
    weights: WeightsPlan
    memory: MemoryBudget
    tensor_parallel: Decided[int]
    replicas: Decided[int]
    max_batch_size: Decided[int]
    max_num_tokens: Decided[int]
    command: tuple[str, ...]
    config_file: Decided[dict[str, Any]]
    environment_variables: dict[str, str]
    port: int
    metrics_path: str
    start_up: Decided[StartUp]
    startup_probe: Decided[Probe]
    readiness_probe: Decided[Probe]
    liveness_probe: Decided[Probe]
    shared_memory_mib: Decided[int]
    host_memory_mib: Decided[int]
    cpu_millicores: Decided[int]
    rollout: Decided[Rollout]
    progress_deadline_seconds: Decided[int]
    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]
    release: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything decided from one environment.

    ``notes`` are sentences about what is allowed but should be known before it is deployed.
    """

    environment: str
    platform: str
    pools: tuple[PoolPlan, ...]
    models: tuple[ModelPlan, ...]
    gateway: GatewayPlan
    system_nodes: Decided[int]
    notes: tuple[str, ...]
