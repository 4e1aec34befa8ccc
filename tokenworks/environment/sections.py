"""The sections of an environment file: a table of keys, each with its meaning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.environment.aws import Aws, Capacity
from tokenworks.environment.aws_values import Registry, ReleaseVersion, ZoneId
from tokenworks.environment.certificate import CertificateReference
from tokenworks.environment.cost import Cost
from tokenworks.environment.gateway import Gateway, Text
from tokenworks.environment.section import Section
from tokenworks.environment.values import (
    Address,
    AnnotationKey,
    ClassName,
    Count,
    ExactVersion,
    JumpHost,
    LockName,
    Name,
    NodeName,
    OwnFile,
    Percent,
    Positive,
    Ratio,
    RelativePath,
    Repository,
    Revision,
    Switch,
    UserName,
)
from tokenworks.environment.weights_source import HubSource, WeightsSource
from tokenworks.facts.gpus import find_gpu
from tokenworks.facts.instances import Instance, instances, machine


class Machine(Section):
    """One machine that exists, and is a node of the cluster."""

    name: NodeName = Field(description="Name of the node, as Kubernetes knows it.")
    address: Address = Field(description="Host name or IP address at which SSH answers.")
    jump_host: JumpHost | None = Field(
        default=None, description="Way to this machine, where it is not that of ssh.jump_host."
    )
    failure_domain: Name | None = Field(
        default=None,
        description="Machines that may be down at the same time, such as a rack; left out, one "
        "machine is changed at a time.",
    )


class NodePool(Section):
    """GPU nodes of one kind."""

    name: Name = Field(description="Name of the pool; models refer to it.")
    instance: Annotated[str, Field(strict=True)] | None = Field(
        default=None,
        description="Instance type, which fixes GPU, GPU count, processors and memory; on platform "
        "hosts the machines may be described instead.",
    )
    gpu: Annotated[str, Field(strict=True, min_length=1)] | None = Field(
        default=None,
        description="GPU of the machines on platform hosts, such as H100-SXM-80GB, or as the label "
        "nvidia.com/gpu.product of their nodes has it.",
    )
    gpus_per_node: Count | None = Field(
        default=None, description="GPUs of each machine that is described."
    )
    processors_per_node: Count | None = Field(
        default=None, description="Processors of each machine, as nproc prints them."
    )
    memory_gib_per_node: Count | None = Field(
        default=None, description="Memory of each machine, in GiB."
    )
    nodes: Count | None = Field(
        default=None, description="Number of nodes; on platform hosts the machines are listed."
    )
    real: Switch = Field(
        default=False,
        description="Whether the one node of this pool really runs its pods, on this machine: only "
        "its GPUs, processors and memory are pretended; on platform simulated.",
    )
    driver_version: ExactVersion | None = Field(
        default=None,
        description="Exact NVIDIA driver version on the nodes, such as 580.126.20; on platform "
        "hosts it is that of the host lock.",
    )
    machines: Annotated[tuple[Machine, ...], Field(min_length=1)] | None = Field(
        default=None, description="The machines of the pool, on platform hosts."
    )
    host_lock: LockName | None = Field(
        default=None,
        description="Lock with every package of the machines, hosts/<name>.yaml beside this file.",
    )
    host_settings: RelativePath | None = Field(
        default=None,
        description="Settings of the machines that no lock holds, such as thresholds of the gate, "
        "in a file beside this one.",
    )
    zone: ZoneId | None = Field(
        default=None,
        description="Zone of every node, on platform aws; left out, nodes are spread over all.",
    )
    capacity: Capacity | None = Field(
        default=None, description="Capacity that was reserved for the pool, on platform aws."
    )
    release_version: ReleaseVersion | None = Field(
        default=None,
        description="Release of AWS's GPU image, on platform aws; with a host_lock the image is "
        "built instead.",
    )
    efa: Switch = Field(
        default=False,
        description="Whether nodes get every Elastic Fabric Adapter of their type, on platform "
        "aws, side by side in one placement group.",
    )

    @property
    def kind(self) -> str:
        """Instance type of the nodes, or what their description calls them."""
        return self.instance or f"{self.gpus_per_node} x {self.gpu}"

    @property
    def shape(self) -> Instance | None:
        """What one node is; None where its type or its GPU is not known."""
        if self.instance is not None:
            return instances().get(self.instance)
        gpu = find_gpu(self.gpu or "")
        sizes = (self.gpus_per_node, self.processors_per_node, self.memory_gib_per_node)
        gpus, processors, memory_gib = (size or 0 for size in sizes)
        return machine(self.kind, gpu, gpus, processors, memory_gib) if gpu and all(sizes) else None

    @property
    def known_shape(self) -> Instance:
        """The shape of a pool that can be planned, which others have no plan."""
        if self.shape is None:
            raise ValueError(f"{self.kind} is not known")
        return self.shape

    @property
    def size(self) -> int:
        """Number of nodes, whether they are counted or listed."""
        return len(self.machines) if self.machines is not None else self.nodes or 0


class Engine(Section):
    """What serves a model."""

    name: Literal["tensorrt-llm"] = Field(description="The inference engine.")
    version: ExactVersion = Field(
        description="Exact engine version; the image digest comes from images.lock."
    )


class Weights(Section):
    """The files of a model, pinned to a revision and to SHA-256 sums."""

    repository: Repository = Field(description="Model repository, organisation/name.")
    revision: Revision = Field(description="Commit of the repository, 40 hexadecimal digits.")
    manifest: RelativePath = Field(
        description="Manifest with path, size and SHA-256 of every file, beside this file."
    )
    config: RelativePath | None = Field(
        default=None,
        description="The model's config.json, or a folder with it and its "
        "model.safetensors.index.json, beside this file; left out, the shipped shapes are taken.",
    )
    source: WeightsSource = Field(
        default=WeightsSource(hub=HubSource()),
        description="Where the volume that engines read is filled from; left out, the public hub.",
        json_schema_extra={"default": {"hub": {}}},
    )


class Traffic(Section):
    """What one model is asked at its daily peak."""

    requests_per_second: Positive = Field(description="Requests a second at the peak.")
    prompt_tokens: Count = Field(description="Mean length of a prompt, in tokens.")
    output_tokens: Count = Field(description="Mean length of an answer, in tokens.")
    time_to_first_token_seconds: Positive | None = Field(
        default=None, description="Time to first token that 19 of 20 requests must meet."
    )
    peak_to_mean: Ratio | None = Field(
        default=None,
        description="Peak rate divided by the mean of the month; idle time follows from it.",
    )
    ramp_minutes: Count | None = Field(
        default=None, description="How long the load takes from its mean to its peak."
    )


class Model(Section):
    """One served model: weights, engine, where it runs and for how many."""

    name: Name = Field(description="Name that callers put into the model field of a request.")
    engine: Engine
    weights: Weights
    node_pool: Name = Field(description="Pool whose GPUs serve this model.")
    max_model_len_tokens: Count = Field(
        description="Longest sequence that is served, prompt plus output, in tokens."
    )
    peak_concurrency: Count = Field(
        description="Sequences of full length in flight at the daily peak, over all replicas."
    )
    replicas: Count | None = Field(
        default=None,
        description="Replicas; left out, they follow from peak_concurrency and KV cache.",
    )
    tensor_parallel: Count | None = Field(
        default=None,
        description="GPUs that share every layer of a replica; left out, the smallest number of "
        "GPUs that fits is taken.",
    )
    pipeline_parallel: Count | None = Field(
        default=None,
        description="Stages, each with a part of a replica's layers; left out, 1 unless the heads "
        "cannot be divided further.",
    )
    expert_parallel: Count | None = Field(
        default=None,
        description="GPUs over which whole experts are spread; left out, all that share a layer "
        "where the number of experts allows it.",
    )
    attention_data_parallel: Switch = Field(
        default=False,
        description="Whether each GPU computes the attention of its own sequences, with a KV cache "
        "of its own; for mixtures of experts.",
    )
    kv_cache_free_memory_percent: Percent | None = Field(
        default=None,
        description="Share of the GPU memory that is free after loading which the KV cache takes; "
        "left out, the engine's own default.",
    )
    traffic: Traffic | None = Field(
        default=None,
        description="Rate, lengths and latency target; left out, only memory decides.",
    )
    load_test: RelativePath | None = Field(
        default=None,
        description="Result of a load test of one replica, beside this file; left out, throughput "
        "is estimated.",
    )


Previous = Annotated[int, Field(strict=True, ge=0, le=100)]


class WeightsStorage(Section):
    """Where weights are read from, and how fast."""

    read_mib_per_second: Count = Field(
        description="Read rate that one node really sees, measured; start-up follows from it."
    )
    download_mib_per_second: Count | None = Field(
        default=None,
        description="Rate at which files arrive from their source, measured; left out, half of a "
        "line of 1 Gbit/s. The time that filling a volume may take follows from it.",
    )
    previous_revisions: Previous = Field(
        default=1,
        description="Revisions of a model that stay on its volume beside the served one, for a way "
        "back without a download.",
    )


class StartUp(Section):
    """What was measured of a start here; what is left out is taken from public measurements."""

    node_seconds: Count | None = Field(
        default=None, description="From asking for a node until its GPUs can be scheduled."
    )
    image_pull_seconds: Count | None = Field(
        default=None, description="Pulling and unpacking the engine image on a new node."
    )
    warm_up_seconds: Count | None = Field(
        default=None,
        description="From the start of the engine until it answers, reading weights apart.",
    )


class Ssh(Section):
    """How the machines are reached; host keys are always checked."""

    user: UserName = Field(description="Account that may use sudo without a password.")
    known_hosts: RelativePath = Field(
        description="Host keys of the machines and jump hosts, in OpenSSH's format, beside this "
        "file."
    )
    key_file: OwnFile | None = Field(
        default=None,
        description="Path of a private key without passphrase; left out, ssh-agent's are used.",
    )
    jump_host: JumpHost | None = Field(default=None, description="Way to the machines.")


class Cluster(Section):
    """A Kubernetes cluster that exists, and what it offers."""

    kubeconfig: OwnFile = Field(description="Path of the credentials of the cluster.")
    weights_storage_class: ClassName = Field(
        description="StorageClass whose volumes many nodes can mount at once, one of them to write "
        "(ReadWriteMany); weights lie there."
    )
    load_balancer_class: ClassName = Field(
        description="Class of internal load balancers, such as kube-vip.io/kube-vip-class."
    )
    load_balancer_needs_node_ports: Switch = Field(
        default=False,
        description="Whether that load balancer reaches the gateway through a port that every "
        "node then opens.",
    )
    load_balancer_annotations: dict[AnnotationKey, Text] = Field(
        default_factory=dict,
        description="What its controller reads on a Service, such as an address, or that it shall "
        "put the PROXY protocol before each connection (gateway.proxy_protocol).",
    )
    certificate: CertificateReference | None = Field(
        default=None,
        description="What the gateway shows its callers; left out with gateway.certificate_issuer.",
    )


class Environment(Section):
    """One deployable whole."""

    platform: Literal["simulated", "hosts", "aws"] = Field(
        description="Where it runs: simulated is a local control plane with fake GPU nodes, hosts "
        "are machines that exist, reached by SSH, in a cluster that exists, aws is a private "
        "cluster made from nothing in an AWS account."
    )
    ssh: Ssh | None = Field(
        default=None, description="How the machines of platform hosts are reached."
    )
    cluster: Cluster | None = Field(
        default=None, description="The cluster that the machines of platform hosts belong to."
    )
    aws: Aws | None = Field(default=None, description="Account and network, on platform aws.")
    image_registry: Registry | None = Field(
        default=None,
        description="Registry that mirrors every container image below its own path, such as "
        "registry.example.org/mirror/nvcr.io/…; digests stay those of the lock.",
    )
    node_pools: Annotated[tuple[NodePool, ...], Field(min_length=1)]
    weights_storage: WeightsStorage
    start_up: StartUp | None = Field(
        default=None, description="Parts of a start that were measured here."
    )
    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    gateway: Gateway
    cost: Cost | None = Field(default=None, description="Prices, and what is paid beside nodes.")

    @property
    def has_real_node(self) -> bool:
        """Whether this machine itself is one of the nodes."""
        return any(pool.real for pool in self.node_pools)
