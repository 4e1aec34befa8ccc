"""What a plan is made of: plain frozen data, each decision beside its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tokenworks.engines.replica_memory import MemoryBudget
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.instances import Instance
from tokenworks.hosts.inventory import Host
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.settings import HostSettings
from tokenworks.sizing.advice import Advice
from tokenworks.sizing.capacity import Surge
from tokenworks.sizing.cold_start import ColdStart

if TYPE_CHECKING:
    from tokenworks.plan.aws.types import AwsPlan
    from tokenworks.plan.cost_types import CostPlan
    from tokenworks.plan.gateway_pods import GatewayPods
    from tokenworks.plan.gateway_types import GatewayPlan

T_co = TypeVar("T_co", covariant=True)

HTTP_PORT_NAME = "http"
"""What a container calls the port that it serves on, where it has one."""


@dataclass(frozen=True)
class Decided(Generic[T_co]):
    """A value that was decided, why, and the keys of the decisions that it rests on.

    A key is relative to the part of the plan that holds the decision, or starts with ``/``.
    """

    value: T_co
    because: str
    rests_on: tuple[str, ...] = ()


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
class HostPoolPlan:
    """The machines of one pool, and what they are to have."""

    lock_name: str
    lock: HostLock
    settings: HostSettings
    machines: tuple[Host, ...]


@dataclass(frozen=True, kw_only=True)
class HostAccess:
    """How machines are reached; paths of what is beside the environment are relative to it."""

    user: str
    known_hosts: str
    key_file: str | None


@dataclass(frozen=True, kw_only=True)
class GivenCertificate:
    """A chain beside the environment, and the setting that keeps its key."""

    chain: str
    key_secret: str


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """A cluster that exists, by reference; without a certificate where an issuer signs one."""

    kubeconfig: str
    weights_storage_class: str
    load_balancer_class: str
    load_balancer_needs_node_ports: bool
    load_balancer_annotations: Mapping[str, str]
    certificate: GivenCertificate | None


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """GPU nodes of one kind, and how many of their GPUs are spoken for."""

    name: str
    instance: Instance
    gpu: Gpu
    driver_version: str
    nodes: int
    gpus_used: int
    hosts: HostPoolPlan | None = None
    real: bool = False
    """Its one node is this machine, which really runs its pods."""

    @property
    def gpus(self) -> int:
        """All GPUs of the pool."""
        return self.nodes * self.instance.gpu_count


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """An HTTP server that has the files: each path of the manifest below ``url``.

    ``token_secret`` is a Pulumi secret, ``authority`` who signs the server's certificate, in PEM.
    """

    url: str
    token_secret: str | None
    authority: str | None


@dataclass(frozen=True, kw_only=True)
class ClaimPlan:
    """A volume of the cluster that has the files, below ``folder``."""

    claim: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Whom a Job may call: networks, each with what is left out of it, on one port.

    ``names`` says whether it has to ask for the address of a name first.
    """

    port: int
    networks: tuple[tuple[str, tuple[str, ...]], ...]
    names: bool

    def __str__(self) -> str:
        """For readers of a table."""
        parts = (f"{one} but {', '.join(but)}" if but else one for one, but in self.networks)
        return f"port {self.port} of {'; '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class PopulatePlan:
    """The Job that brings a revision onto the volume, and what stays there beside it."""

    source: ServerPlan | ClaimPlan
    reach: Decided[Reach] | None
    connections: Decided[int]
    deadline_seconds: Decided[int]
    collect_deadline_seconds: Decided[int]
    retries: Decided[int]
    cpu_millicores: Decided[int]
    memory_mib: Decided[int]
    previous_revisions: Decided[int]


@dataclass(frozen=True, kw_only=True)
class WeightsPlan:
    """The files of one model: what they are, how they come, and where a pod finds them.

    ``folder`` is that of this revision on the volume; it changes with the files.
    """

    repository: str
    revision: str
    digest: str
    files: tuple[tuple[str, int, str], ...]
    total_bytes: int
    claim: str
    volume_gib: Decided[int]
    mount_path: str
    folder: str
    populate: PopulatePlan

    @property
    def path(self) -> str:
        """Folder of the files, as engines see it; its last part is the model's name."""
        return f"{self.mount_path}/{self.folder}"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One probe of the kubelet; without a path it asks only whether the port takes connections.

    ``port`` is the name of the container's port. ``kill_seconds`` is what a container has to end
    that this probe condemned; None where it has the pod's own time, or the kubelet ends none.
    """

    path: str | None
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    kill_seconds: int | None = None
    port: str = HTTP_PORT_NAME


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """How a Deployment replaces its pods."""

    max_surge: int
    max_unavailable: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What one model is asked: rates at the peak and on the mean of the month, and lengths."""

    prompt_tokens: int
    output_tokens: int
    peak_requests_per_second: Fraction
    mean_requests_per_second: Fraction | None


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one replica serves at its limit: a range when it is estimated, one value measured.

    Requests a second, output tokens a second, seconds of a request and to its first token; ``low``
    and ``high`` of each are the pessimistic and the optimistic end.
    """

    measured: bool
    requests_per_second: tuple[float, float]
    output_tokens_per_second: tuple[float, float]
    request_seconds: tuple[float, float]
    first_token_seconds: tuple[float, float]
    unloaded_first_token_seconds: tuple[float, float]
    asked: Asked

    @property
    def planned_requests_per_second(self) -> float:
        """The pessimistic end, on which the plan rests."""
        return self.requests_per_second[0]


@dataclass(frozen=True, kw_only=True)
class CapacityPlan:
    """How much one replica and the fleet carry, what may wait, and what happens beyond the peak.

    ``rates`` is None where neither traffic is given nor the GPU's speed is known.
    """

    peak_sequences: Decided[int]
    sequences_per_replica: Decided[int]
    rates: Decided[Rates] | None
    needed_replicas: Decided[int]
    carried_sequences: Decided[int]
    queued_requests: Decided[int]
    warm_replicas: Decided[int]
    surges: tuple[Surge, ...]


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """Everything about one served model: what runs, where, how large and how it rolls."""

    name: str
    engine: str
    engine_version: str
    image: Image
    node_pool: str
    gpu_product: str
    runtime_class: Decided[str | None]
    weights: WeightsPlan
    model_shape: Decided[str]
    memory: MemoryBudget
    tensor_parallel: Decided[int]
    pipeline_parallel: Decided[int]
    expert_parallel: Decided[int]
    attention_data_parallel: Decided[bool]
    kv_cache_free_memory_percent: Decided[float]
    replicas: Decided[int]
    max_batch_size: Decided[int]
    max_num_tokens: Decided[int]
    command: tuple[str, ...]
    config_file: Decided[dict[str, Any]]
    environment_variables: dict[str, str]
    port: int
    metrics_path: str
    capacity: CapacityPlan
    cold_start: Decided[ColdStart]
    rollout_limit_seconds: Decided[int]
    schedule_lead_seconds: Decided[int]
    startup_probe: Decided[Probe]
    readiness_probe: Decided[Probe]
    liveness_probe: Decided[Probe]
    shared_memory_mib: Decided[int]
    host_memory_mib: Decided[int]
    cpu_millicores: Decided[int]
    cache_volume_gib: Decided[int]
    scratch_volume_gib: Decided[int]
    weights_gate_cpu_millicores: Decided[int]
    weights_gate_memory_mib: Decided[int]
    weights_gate_threads: Decided[int]
    rollout: Decided[Rollout]
    progress_deadline_seconds: Decided[int]
    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]
    release: str

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica takes, all on one node."""
        return self.tensor_parallel.value * self.pipeline_parallel.value


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything decided from one environment.

    ``notes`` are sentences about what is allowed but should be known before it is deployed,
    ``advice`` are findings about whether it is the right thing to deploy.
    """

    environment: str
    platform: str
    weights_read_mib_per_second: int
    pools: tuple[PoolPlan, ...]
    models: tuple[ModelPlan, ...]
    gateway: GatewayPlan
    gateway_pods: GatewayPods
    system_nodes: Decided[int]
    cost: CostPlan
    notes: tuple[str, ...]
    advice: tuple[Advice, ...]
    access: HostAccess | None = None
    cluster: ClusterPlan | None = None
    aws: AwsPlan | None = None

    @property
    def real_pool(self) -> PoolPlan | None:
        """The pool whose node really runs on this machine, where there is one."""
        return next((pool for pool in self.pools if pool.real), None)
