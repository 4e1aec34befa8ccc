"""The sections of an environment file: a table of keys, each with its meaning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tokenworks.environment.values import (
    Count,
    ExactVersion,
    Hostname,
    Name,
    RelativePath,
    Repository,
    Revision,
    SecretKey,
)


class Section(BaseModel):
    """A frozen table of keys; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NodePool(Section):
    """GPU nodes of one kind."""

    name: Name = Field(description="Name of the pool; models refer to it.")
    instance: Annotated[str, Field(strict=True)] = Field(
        description="Instance type, which fixes GPU, GPU count, processors and memory."
    )
    nodes: Count = Field(description="Number of nodes.")
    driver_version: ExactVersion = Field(
        description="Exact NVIDIA driver version on the nodes, such as 580.126.20."
    )


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
        description="GPUs per replica; left out, the smallest number that fits is taken.",
    )


class SecretReference(Section):
    """Where a secret is kept; never the secret."""

    pulumi_secret: SecretKey = Field(
        description="Key in the serving stack's settings, set with `pulumi config set --secret`."
    )


class Tenant(Section):
    """A caller with keys of its own."""

    name: Name = Field(description="Name of the caller, seen in logs and metrics.")
    api_keys: Annotated[tuple[SecretReference, ...], Field(min_length=1)] = Field(
        description="API keys that are accepted; two while one is being replaced."
    )


class Gateway(Section):
    """The one door: a TLS gateway behind an internal load balancer."""

    hostname: Hostname = Field(description="DNS name that callers use and the certificate carries.")
    replicas: Count = Field(default=2, description="Gateway pods; two survive a node.")
    max_request_seconds: Count = Field(
        default=600, description="Longest a request may take, stream included."
    )
    tenants: Annotated[tuple[Tenant, ...], Field(min_length=1)] = Field(
        description="Callers; without a key nobody is served."
    )


class WeightsStorage(Section):
    """Where weights are read from, and how fast."""

    read_mib_per_second: Count = Field(
        description="Read rate that one node really sees, measured; start-up follows from it."
    )


class Environment(Section):
    """One deployable whole."""

    platform: Literal["simulated"] = Field(
        description="Where it runs: simulated is a local control plane with fake GPU nodes."
    )
    node_pools: Annotated[tuple[NodePool, ...], Field(min_length=1)]
    weights_storage: WeightsStorage
    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    gateway: Gateway
