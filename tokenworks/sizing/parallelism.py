"""How a model may be spread over GPUs: what its shapes and the machines allow.

Tensor parallelism stays within one node; pipeline stages cross nodes, and within one they are taken
only where the heads cannot be divided further. Experts are split over the GPUs that share a layer
where their number allows it, and what is left over are replicas (data parallelism). Rules: vLLM and
TensorRT-LLM refuse a tensor parallelism that does not divide the attention heads, and one that
neither divides nor is divided by the KV heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tokenworks.facts.models import ModelConfig

SIZES = (1, 2, 4, 8)
"""Tensor parallelism that engines test and tune for; beyond 8 GPUs replicas serve better."""

NVLINK = ("nvswitch", "nvlink")


@dataclass(frozen=True, kw_only=True)
class Machines:
    """GPUs to spread a model over; ``interconnect`` is what joins those of one node."""

    nodes: int
    gpus_per_node: int
    interconnect: str

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of an arrangement is fixed by those who ask; None leaves it open.

    Tensor parallelism alone means one stage; stages alone leave tensor parallelism open.
    """

    tensor: int | None = None
    pipeline: int | None = None
    expert: int | None = None
    attention_data: bool = False


ANYTHING = Wanted()


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """One way to spread a model: GPUs per stage, stages, GPUs that share experts, replicas.

    ``nodes`` is how many of them one replica takes. With ``attention_data`` each GPU of a stage
    computes the attention of its own sequences and keeps a KV cache of its own.
    """

    tensor: int
    pipeline: int
    expert: int
    data: int
    nodes: int = 1
    attention_data: bool = False
    notes: tuple[str, ...] = ()

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica takes."""
        return self.tensor * self.pipeline

    @property
    def caches(self) -> int:
        """KV caches of one replica that hold different sequences."""
        return self.tensor if self.attention_data else 1


def tensor_parallel_sizes(config: ModelConfig, gpus_per_node: int) -> tuple[int, ...]:
    """Tensor parallelism that a model's shapes allow on one node."""
    return tuple(size for size in SIZES if _divides(config, size, gpus_per_node))


def _divides(config: ModelConfig, size: int, gpus_per_node: int) -> bool:
    inner = [config.intermediate_size] if config.dense_layers else []
    if config.experts is not None:
        inner.append(config.experts.intermediate_size)
    heads = config.latent is not None or _goes_with(config.kv_heads, size)
    return (
        gpus_per_node % size == 0
        and config.attention_heads % size == 0
        and config.vocabulary % size == 0
        and all(width % size == 0 for width in inner)
        and heads
    )


def _goes_with(kv_heads: int, size: int) -> bool:
    return kv_heads % size == 0 or size % kv_heads == 0


def arrangements(
    config: ModelConfig, machines: Machines, wanted: Wanted = ANYTHING
) -> Iterator[Arrangement]:
    """Every allowed arrangement, those with the fewest GPUs for each replica first.

    A replica fills a node before it crosses its boundary, and crosses it with stages only.
    """
    for tensor, stages in _splits(config, machines, wanted):
        enough = stages <= config.layers and tensor * stages <= machines.gpus
        if enough and _divisible(wanted, tensor):
            yield _arranged(config, machines, wanted, tensor, stages)


def _splits(config: ModelConfig, machines: Machines, wanted: Wanted) -> Iterator[tuple[int, int]]:
    """GPUs per stage, and stages."""
    sizes = tensor_parallel_sizes(config, machines.gpus_per_node)
    if wanted.tensor is not None or wanted.pipeline is not None:
        fixed = (wanted.tensor,) if wanted.tensor is not None else sizes
        yield from ((size, wanted.pipeline or 1) for size in fixed if size in sizes)
        return
    if not sizes:
        return
    for gpus in (size for size in SIZES if machines.gpus_per_node % size == 0):
        tensor = max(size for size in sizes if gpus % size == 0)
        yield tensor, gpus // tensor
    whole = machines.gpus_per_node // sizes[-1]
    yield from ((sizes[-1], whole * nodes) for nodes in range(2, machines.nodes + 1))


def _divisible(wanted: Wanted, tensor: int) -> bool:
    """Whether experts and attention can be spread as asked over the GPUs that share a layer."""
    return tensor % (wanted.expert or 1) == 0 and not (wanted.attention_data and tensor == 1)


def _arranged(
    config: ModelConfig, machines: Machines, wanted: Wanted, tensor: int, stages: int
) -> Arrangement:
    nodes = math.ceil(tensor * stages / machines.gpus_per_node)
    return Arrangement(
        tensor=tensor,
        pipeline=stages,
        expert=wanted.expert or shared_experts(config, tensor),
        data=_replicas(machines, tensor * stages, nodes),
        nodes=nodes,
        attention_data=wanted.attention_data,
        notes=tuple(_notes(machines, tensor, stages, nodes)),
    )


def shared_experts(config: ModelConfig, tensor: int) -> int:
    """GPUs over which whole experts are spread: all that share a layer, or 1 where some differ."""
    return tensor if config.experts is not None and config.experts.count % tensor == 0 else 1


def _replicas(machines: Machines, gpus: int, nodes: int) -> int:
    if nodes == 1:
        return machines.nodes * (machines.gpus_per_node // gpus)
    return machines.nodes // nodes


def _notes(machines: Machines, tensor: int, stages: int, nodes: int) -> Iterator[str]:
    if tensor > 1 and machines.interconnect not in NVLINK:
        yield (
            f"tensor parallelism {tensor} across {machines.interconnect or 'unknown links'}: every "
            "layer waits for it; GPUs with NVLink, or one larger GPU, serve faster"
        )
    if nodes > 1:
        yield f"{stages} pipeline stages cross nodes; each token passes the network between them"
    elif stages > 1:
        yield f"each token passes {stages} pipeline stages, one after the other"


def choose(
    config: ModelConfig,
    machines: Machines,
    fits: Callable[[Arrangement], bool],
    wanted: Wanted = ANYTHING,
) -> Arrangement | None:
    """The arrangement with the fewest GPUs for each replica that fits, or None."""
    return next((each for each in arrangements(config, machines, wanted) if fits(each)), None)
