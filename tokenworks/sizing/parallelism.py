"""How a model may be spread over GPUs: what its shapes and the machines allow.

Tensor parallelism stays within one NVLink domain, pipeline stages cross nodes, experts are split
over the GPUs of a replica where their number allows it, and what is left over are replicas (data
parallelism). Rules: vLLM and TensorRT-LLM refuse a tensor parallelism that does not divide the
attention heads, and one that neither divides nor is divided by the KV heads.
"""

from __future__ import annotations

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
class Arrangement:
    """One way to spread a model: GPUs per stage, stages, GPUs that share experts, replicas."""

    tensor: int
    pipeline: int
    expert: int
    data: int
    notes: tuple[str, ...] = ()

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica takes."""
        return self.tensor * self.pipeline


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


def arrangements(config: ModelConfig, machines: Machines) -> Iterator[Arrangement]:
    """Every allowed arrangement, those with the fewest GPUs for each replica first.

    Within equal numbers, tensor parallelism before pipeline stages. A replica fills whole nodes
    before it crosses their boundary, and crosses it only with pipeline stages.
    """
    sizes = tensor_parallel_sizes(config, machines.gpus_per_node)
    for tensor in sizes:
        yield _arranged(config, machines, tensor, 1)
    if not sizes:
        return
    for stages in range(2, machines.nodes + 1):
        if stages <= config.layers:
            yield _arranged(config, machines, sizes[-1], stages)


def _arranged(config: ModelConfig, machines: Machines, tensor: int, stages: int) -> Arrangement:
    shared = config.experts is not None and config.experts.count % tensor == 0
    return Arrangement(
        tensor=tensor,
        pipeline=stages,
        expert=tensor if shared else 1,
        data=_replicas(machines, tensor, stages),
        notes=tuple(_notes(machines, tensor, stages)),
    )


def _replicas(machines: Machines, tensor: int, stages: int) -> int:
    if stages == 1:
        return machines.nodes * (machines.gpus_per_node // tensor)
    return machines.nodes // stages


def _notes(machines: Machines, tensor: int, stages: int) -> Iterator[str]:
    if tensor > 1 and machines.interconnect not in NVLINK:
        yield (
            f"tensor parallelism {tensor} across {machines.interconnect or 'unknown links'}: every "
            "layer waits for it; GPUs with NVLink, or one larger GPU, serve faster"
        )
    if stages > 1:
        yield f"{stages} pipeline stages cross nodes; each token passes the network between them"


def choose(
    config: ModelConfig, machines: Machines, fits: Callable[[Arrangement], bool]
) -> Arrangement | None:
    """The arrangement with the fewest GPUs for each replica that fits, or None."""
    return next((each for each in arrangements(config, machines) if fits(each)), None)
