"""The sizes of one model: parallelism, replicas, batches, host memory, processors."""

from __future__ import annotations

import math

from tokenworks.engines import tensorrt_llm
from tokenworks.engines.tensorrt_llm import MemoryBudget
from tokenworks.environment.sections import Model
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.instances import Instance
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.node_reserve import allocatable_cpu_millicores, allocatable_memory_mib
from tokenworks.plan.types import Decided
from tokenworks.sizing import capacity
from tokenworks.sizing.parallelism import tensor_parallel_sizes

PROCESS_HOST_MEMORY_MIB = 4096
"""Allowance for each rank's process: CUDA context, tokenizer, pinned buffers."""

MINIMUM_BATCH_SIZE = 8


def allowed_tensor_parallel(config: ModelConfig, instance: Instance) -> tuple[int, ...]:
    """GPU counts over which a replica may be split: they divide heads and fit on one node."""
    return tensor_parallel_sizes(config, instance.gpu_count)


def max_num_tokens(model: Model) -> Decided[int]:
    """Tokens that one forward pass may carry."""
    size = min(tensorrt_llm.DEFAULT_MAX_NUM_TOKENS, model.max_model_len_tokens)
    if size < tensorrt_llm.DEFAULT_MAX_NUM_TOKENS:
        because = "no sequence is longer, and a larger pass only takes activation memory"
    else:
        because = "the engine's default; longer prompts are prefilled in chunks of this size"
    return Decided(size, because)


def budget(model: Model, config: ModelConfig, gpu: Gpu, tensor_parallel: int) -> MemoryBudget:
    """The memory budget of one GPU under a given tensor parallelism."""
    return tensorrt_llm.memory_budget(
        config,
        usable_gib=gpu.usable_gib,
        tensor_parallel=tensor_parallel,
        max_num_tokens=max_num_tokens(model).value,
        max_model_len_tokens=model.max_model_len_tokens,
    )


def needed_replicas(model: Model, memory: MemoryBudget) -> int:
    """Replicas that hold the peak with redundancy, and still hold it with one of them gone."""
    return capacity.needed_replicas(model.peak_concurrency, memory.sequences)


def replicas(model: Model, memory: MemoryBudget) -> Decided[int]:
    """How many replicas run: as asked, else as many as the peak needs."""
    needed = needed_replicas(model, memory)
    law = replicas_law(model.peak_concurrency, memory.sequences)
    if model.replicas is not None:
        return Decided(model.replicas, f"asked for; {law}", ("memory",))
    return Decided(needed, law, ("memory",))


def replicas_law(peak: float, limit: int) -> str:
    """The sentence that goes with ``needed_replicas``."""
    with_redundancy = peak / limit * float(capacity.REDUNDANCY)
    return (
        f"peak {peak:g} / {limit} sequences per replica x {float(capacity.REDUNDANCY)} = "
        f"{with_redundancy:.1f}, and one more than the {math.ceil(peak / limit)} that carry the "
        f"peak: {capacity.needed_replicas(peak, limit)}"
    )


def max_batch_size(model: Model) -> Decided[int]:
    """Sequences that the scheduler of one replica may run at once."""
    size = max(MINIMUM_BATCH_SIZE, 2 ** math.ceil(math.log2(model.peak_concurrency)))
    return Decided(
        size,
        f"the next power of two of the peak ({model.peak_concurrency}), at least "
        f"{MINIMUM_BATCH_SIZE}: a single surviving replica schedules all of it, shorter sequences "
        "more than fit at full length",
    )


def shared_memory_mib(gpu: Gpu) -> Decided[int]:
    """Size of ``/dev/shm``: half of one GPU's memory."""
    return Decided(
        math.ceil(gpu.usable_gib * 1024 / 2),
        "half of one GPU's memory, since several processes load; the container default of 64 MiB "
        "ends in a bus error",
    )


def host_memory_mib(weight_bytes: int, tensor_parallel: int, gpu: Gpu) -> Decided[int]:
    """Host memory of one replica: page cache for the weights, shared memory, processes."""
    weights = math.ceil(weight_bytes / 2**20)
    shared = shared_memory_mib(gpu).value
    processes = PROCESS_HOST_MEMORY_MIB * (tensor_parallel + 1)
    return Decided(
        weights + shared + processes,
        f"{weights} for the weights in the page cache, {shared} for /dev/shm, {processes} for "
        f"{tensor_parallel} ranks and the server",
    )


def host_memory_share_mib(instance: Instance, tensor_parallel: int) -> int:
    """Host memory that one replica may take when its node is full of such replicas."""
    allocatable = allocatable_memory_mib(instance.host_memory_gib, instance.max_pods)
    return allocatable * tensor_parallel // instance.gpu_count


def cpu_millicores(instance: Instance, tensor_parallel: int) -> Decided[int]:
    """Processors of one replica: three quarters of its share of the node."""
    share = allocatable_cpu_millicores(instance.vcpus) * tensor_parallel // instance.gpu_count
    return Decided(
        share * 3 // 4 // 100 * 100,
        f"three quarters of its GPUs' share of the {instance.vcpus} processors of "
        f"{instance.name}; the rest is for what every node runs",
    )
