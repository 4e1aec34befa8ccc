"""The sizes of one model: batches, replicas, host memory, processors, volumes, weights gate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tokenworks.engines import tensorrt_llm_law
from tokenworks.engines.replica_memory import MemoryBudget, Served
from tokenworks.environment.sections import Model
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.instances import Instance
from tokenworks.facts.node_reserve import allocatable_cpu_millicores, allocatable_memory_mib
from tokenworks.plan.types import Decided
from tokenworks.sizing import capacity

PROCESS_HOST_MEMORY_MIB = 4096
"""Allowance for each rank's process: CUDA context, tokenizer, pinned buffers."""

MINIMUM_BATCH_SIZE = 8

CACHE_VOLUME_GIB = 20
SCRATCH_VOLUME_GIB = 10

GATE_MILLICORES = 1000
GATE_PROCESS_MIB = 128
GATE_BUFFERS_MIB = 32
"""The gate reads each file in chunks of 16 MiB (``templates/weights/verify.py``): the one that is
being hashed and the next."""


def max_num_tokens(model: Model) -> Decided[int]:
    """Tokens that one forward pass may carry."""
    size = min(tensorrt_llm_law.MAX_NUM_TOKENS, model.max_model_len_tokens)
    if size < tensorrt_llm_law.MAX_NUM_TOKENS:
        because = "no sequence is longer, and a larger pass only takes activation memory"
    else:
        because = "the engine's default; longer prompts are prefilled in chunks of this size"
    return Decided(size, because)


def kv_cache_percent(model: Model) -> Decided[float]:
    """Percent of the memory that is free after loading which the KV cache takes."""
    if model.kv_cache_free_memory_percent is not None:
        return Decided(float(model.kv_cache_free_memory_percent), "asked for in the environment")
    return Decided(
        tensorrt_llm_law.FRACTION * 100,
        "the engine's own default; the rest is for sampling and for what no law foresees",
    )


def served(model: Model, record: Mapping[str, Any]) -> Served:
    """What one replica of a model is to hold, as the memory law asks for it."""
    return Served(
        repository=model.weights.repository,
        record=record,
        engine_version=model.engine.version,
        max_batch_size=max_batch_size(model).value,
        max_num_tokens=max_num_tokens(model).value,
        max_model_len_tokens=model.max_model_len_tokens,
        kv_cache_fraction=kv_cache_percent(model).value / 100,
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
    peak, most = model.peak_concurrency, tensorrt_llm_law.MAX_BATCH_SIZE
    size = max(MINIMUM_BATCH_SIZE, 2 ** math.ceil(math.log2(peak)))
    if size > most:
        return Decided(most, f"the engine's own limit; the peak ({peak}) needs several replicas")
    return Decided(
        size,
        f"the next power of two of the peak ({peak}), at least {MINIMUM_BATCH_SIZE}: a single "
        "surviving replica schedules all of it, shorter sequences more than fit at full length",
    )


def shared_memory_mib(gpu: Gpu) -> Decided[int]:
    """Size of ``/dev/shm``: half of one GPU's memory."""
    return Decided(
        math.ceil(gpu.usable_gib * 1024 / 2),
        "half of one GPU's memory, since several processes load; the container default of 64 MiB "
        "ends in a bus error",
    )


def host_memory_mib(weight_bytes: int, gpus: int, gpu: Gpu) -> Decided[int]:
    """Host memory of one replica: page cache for the weights, shared memory, processes."""
    weights = math.ceil(weight_bytes / 2**20)
    shared = shared_memory_mib(gpu).value
    processes = PROCESS_HOST_MEMORY_MIB * (gpus + 1)
    return Decided(
        weights + shared + processes,
        f"{weights} for the weights in the page cache, {shared} for /dev/shm, {processes} for "
        f"{gpus} ranks and the server",
    )


def host_memory_share_mib(instance: Instance, gpus: int) -> int:
    """Host memory that one replica may take when its node is full of such replicas."""
    allocatable = allocatable_memory_mib(instance.host_memory_gib, instance.max_pods)
    return allocatable * gpus // instance.gpu_count


def cpu_millicores(instance: Instance, gpus: int) -> Decided[int]:
    """Processors of one replica: three quarters of its share of the node."""
    share = allocatable_cpu_millicores(instance.vcpus) * gpus // instance.gpu_count
    return Decided(
        share * 3 // 4 // 100 * 100,
        f"three quarters of its GPUs' share of the {instance.vcpus} processors of "
        f"{instance.name}; the rest is for what every node runs",
    )


def cache_volume_gib() -> Decided[int]:
    """Size limit of the volume that holds every cache of the engine."""
    return Decided(
        CACHE_VOLUME_GIB,
        "an allowance for kernels that Triton and TorchInductor compile and for what libraries "
        "keep; weights never lie there, and a pod beyond it is evicted before it fills the node",
    )


def scratch_volume_gib() -> Decided[int]:
    """Size limit of the volume at ``/tmp``."""
    return Decided(
        SCRATCH_VOLUME_GIB,
        "an allowance for temporary files of compilers and of the server; the root file system is "
        "read-only, and a pod beyond it is evicted before it fills the node",
    )


def weights_gate_cpu_millicores() -> Decided[int]:
    """Processors that the weights gate asks for."""
    return Decided(
        GATE_MILLICORES,
        "one core, at whose rate of hashing the cold start counts; there is no limit, so that idle "
        "cores help",
    )


def weights_gate_threads(files: int, vcpus: int) -> Decided[int]:
    """Files that the weights gate reads at once."""
    return Decided(
        min(files, vcpus),
        f"one for each of {files} files, as far as the {vcpus} processors of the node go",
    )


def weights_gate_memory_mib(threads: int) -> Decided[int]:
    """Memory of the weights gate: what its threads hold at most."""
    return Decided(
        GATE_PROCESS_MIB + threads * GATE_BUFFERS_MIB,
        f"{GATE_PROCESS_MIB} for the process and {GATE_BUFFERS_MIB} for each of {threads} files "
        "that are read at once; the engine's own memory, asked for after it, is larger",
        ("weights_gate_threads",),
    )
