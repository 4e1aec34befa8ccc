"""One model on its way into a plan: what it refers to is known, and it fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenworks.engines import tensorrt_llm
from tokenworks.engines.tensorrt_llm import MemoryBudget
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock, LockedImage
from tokenworks.environment.sections import Model, NodePool
from tokenworks.environment.weights import Manifest
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import Problem
from tokenworks.facts.gpus import GPUS, Gpu
from tokenworks.facts.instances import Instance, instances
from tokenworks.facts.models import ModelConfig, models
from tokenworks.plan import sizes
from tokenworks.plan.placement import Demand
from tokenworks.plan.types import Decided
from tokenworks.sizing.memory import GIB


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that fits, with everything its plan is made from."""

    index: int
    model: Model
    manifest: Manifest
    pool: NodePool
    instance: Instance
    gpu: Gpu
    config: ModelConfig
    locked: LockedImage
    memory: MemoryBudget
    tensor_parallel: Decided[int]
    replicas: Decided[int]

    @property
    def demand(self) -> Demand:
        """GPUs that the model asks of its pool."""
        return Demand(
            model=self.model.name,
            replicas=self.replicas.value,
            gpus_per_replica=self.tensor_parallel.value,
        )


class _Refused(Exception):  # noqa: N818  (never leaves this module)
    """One or more problems of one model."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__()


@dataclass(frozen=True)
class _Place:
    """Where problems of one model are reported."""

    loaded: LoadedEnvironment
    index: int

    def problem(self, *key: str, given: object, reason: str, remedy: str) -> Problem:
        path: KeyPath = ("models", self.index, *key)
        return self.loaded.source.problem(path, given=str(given), reason=reason, remedy=remedy)


def candidate(
    loaded: LoadedEnvironment, index: int, pools: dict[str, NodePool], lock: Lock
) -> Candidate | tuple[Problem, ...]:
    """The model at ``index``, ready for a plan, or why it cannot be served.

    ``pools`` are those that can be planned; for a model of another one nothing more is said.
    """
    model, place = loaded.environment.models[index], _Place(loaded, index)
    problems = tuple(_unknown_references(place, model, lock))
    if problems or model.node_pool not in pools:
        return problems
    pool, config = pools[model.node_pool], models()[model.weights.repository]
    shape = instances()[pool.instance]
    locked = lock.find(tensorrt_llm.IMAGE_REPOSITORY, model.engine.version)
    assert locked is not None  # noqa: S101  (reported above)
    problems = tuple(_mismatches(place, model, pool, config))
    if problems:
        return problems
    try:
        tensor_parallel = _tensor_parallel(place, model, config, shape)
        memory = _memory(place, model, config, shape, tensor_parallel.value)
        _host_memory(place, loaded.manifests[model.name], shape, tensor_parallel.value)
    except _Refused as refused:
        return refused.problems
    return Candidate(
        index=index,
        model=model,
        manifest=loaded.manifests[model.name],
        pool=pool,
        instance=shape,
        gpu=GPUS[shape.gpu],
        config=config,
        locked=locked,
        memory=memory,
        tensor_parallel=tensor_parallel,
        replicas=sizes.replicas(model, memory),
    )


def notes(ready: Candidate) -> Iterable[str]:
    """What is allowed, but should be known before the model is deployed."""
    model, needed = ready.model, sizes.needed_replicas(ready.model, ready.memory)
    if ready.replicas.value < needed:
        yield (
            f"models[{ready.index}].replicas: {ready.replicas.value} carry the peak of "
            f"{model.peak_concurrency} only while all are up; {needed} would survive a failure."
        )
    if ready.tensor_parallel.value > 1 and ready.instance.interconnect != "nvswitch":
        yield (
            f"models[{ready.index}].tensor_parallel: the GPUs of {ready.instance.name} are joined "
            "by PCIe, so every layer waits for it; a pool with NVLink serves faster."
        )


def _unknown_references(place: _Place, model: Model, lock: Lock) -> Iterable[Problem]:
    declared = [pool.name for pool in place.loaded.environment.node_pools]
    if model.node_pool not in declared:
        yield place.problem(
            "node_pool",
            given=model.node_pool,
            reason="is not a node pool of this environment",
            remedy=f"use one of: {', '.join(declared)}",
        )
    if model.weights.repository not in models():
        yield place.problem(
            "weights",
            "repository",
            given=model.weights.repository,
            reason="is a model whose shapes are unknown",
            remedy=f"use one of: {', '.join(models())}; or add its config.json to "
            "tokenworks/facts/models",
        )
    if tensorrt_llm.minimum_driver_major(model.engine.version) is None:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason="is a release whose driver floor is unknown",
            remedy=f"use a release of {', '.join(tensorrt_llm.MINIMUM_DRIVER_MAJOR)}",
        )
    elif lock.find(tensorrt_llm.IMAGE_REPOSITORY, model.engine.version) is None:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"has no digest of {tensorrt_llm.IMAGE_REPOSITORY} in images.lock",
            remedy="lock the tag with its digest and where it was read, or use a locked one",
        )


def _mismatches(
    place: _Place, model: Model, pool: NodePool, config: ModelConfig
) -> Iterable[Problem]:
    floor = tensorrt_llm.minimum_driver_major(model.engine.version) or 0
    if int(pool.driver_version.split(".")[0]) < floor:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"needs driver {floor} or newer, pool {pool.name} has {pool.driver_version}",
            remedy=f"raise driver_version of the pool to {floor} or newer",
        )
    shape = instances()[pool.instance]
    lowest = tensorrt_llm.MINIMUM_COMPUTE_CAPABILITY
    if tuple(int(part) for part in shape.compute_capability.split(".")) < lowest:
        yield place.problem(
            "node_pool",
            given=pool.name,
            reason=f"has {shape.gpu} GPUs of compute capability {shape.compute_capability}, the "
            f"engine needs {lowest[0]}.{lowest[1]}",
            remedy="use a pool of newer GPUs",
        )
    if model.max_model_len_tokens > config.max_position_embeddings:
        yield place.problem(
            "max_model_len_tokens",
            given=model.max_model_len_tokens,
            reason=f"is beyond the {config.max_position_embeddings} positions of the model",
            remedy=f"use at most {config.max_position_embeddings}",
        )


def _tensor_parallel(
    place: _Place, model: Model, config: ModelConfig, shape: Instance
) -> Decided[int]:
    allowed = sizes.allowed_tensor_parallel(config, shape)
    asked = model.tensor_parallel
    if asked is not None and asked not in allowed:
        raise _Refused(
            place.problem(
                "tensor_parallel",
                given=asked,
                reason=f"does not divide the {shape.gpu_count} GPUs of {shape.name} and the "
                f"{config.attention_heads} attention heads of the model",
                remedy=f"use {_either(allowed)}",
            )
        )
    if asked is not None:
        return Decided(asked, "asked for in the environment")
    smallest = sizes.smallest_tensor_parallel(model, config, GPUS[shape.gpu], allowed)
    if smallest is None:
        raise _Refused(_does_not_fit(place, model, config, shape, allowed[-1]))
    return Decided(
        smallest,
        "the fewest GPUs on which weights and one sequence of full length fit"
        if smallest > 1
        else "one GPU holds weights and KV cache; splitting would only add communication",
    )


def _memory(
    place: _Place, model: Model, config: ModelConfig, shape: Instance, tensor_parallel: int
) -> MemoryBudget:
    memory = sizes.budget(model, config, GPUS[shape.gpu], tensor_parallel)
    if memory.sequences < 1:
        raise _Refused(_does_not_fit(place, model, config, shape, tensor_parallel))
    held = memory.sequences * (model.replicas or 0)
    if model.replicas is not None and held < model.peak_concurrency:
        raise _Refused(
            place.problem(
                "replicas",
                given=model.replicas,
                reason=f"has room for {held} sequences of full length, the peak is "
                f"{model.peak_concurrency}",
                remedy=f"use {sizes.needed_replicas(model, memory)} replicas, shorter sequences "
                "or more GPUs for each",
            )
        )
    return memory


def _host_memory(place: _Place, manifest: Manifest, shape: Instance, tensor_parallel: int) -> None:
    gpu = GPUS[shape.gpu]
    needed = sizes.host_memory_mib(manifest.total_bytes, tensor_parallel, gpu)
    share = sizes.host_memory_share_mib(shape, tensor_parallel)
    if needed.value > share:
        raise _Refused(
            place.problem(
                "node_pool",
                given=place.loaded.environment.models[place.index].node_pool,
                reason=f"gives a replica {share} MiB of host memory on {shape.name}, needed are "
                f"{needed.value} ({needed.because})",
                remedy="use an instance type with more host memory for each GPU",
            )
        )


def _does_not_fit(
    place: _Place, model: Model, config: ModelConfig, shape: Instance, tensor_parallel: int
) -> Problem:
    memory = sizes.budget(model, config, GPUS[shape.gpu], tensor_parallel)
    table = ", ".join(f"{name} {size / GIB:.2f}" for name, size, _ in memory.rows())
    needed = memory.kv_bytes_per_token * model.max_model_len_tokens / GIB
    return place.problem(
        "max_model_len_tokens",
        given=model.max_model_len_tokens,
        reason=f"does not fit on {tensor_parallel} x {shape.gpu} ({memory.usable_bytes / GIB:.2f} "
        f"GiB each): {table} GiB; one sequence needs {needed:.2f} GiB of KV cache",
        remedy=_what_would_fit(model, config, shape, memory),
    )


def _what_would_fit(
    model: Model, config: ModelConfig, shape: Instance, memory: MemoryBudget
) -> str:
    allowed = sizes.allowed_tensor_parallel(config, shape)
    fewest = sizes.smallest_tensor_parallel(model, config, GPUS[shape.gpu], allowed)
    ways = []
    if memory.kv_cache_tokens >= tensorrt_llm.TOKENS_PER_BLOCK:
        ways.append(f"use at most {memory.kv_cache_tokens} tokens")
    if fewest is not None:
        ways.append(f"use tensor_parallel {fewest}")
    return " or ".join(ways) or "use a pool with larger GPUs"


def _either(numbers: tuple[int, ...]) -> str:
    return (
        ", ".join(str(n) for n in numbers[:-1])
        + (" or " if numbers[:-1] else "")
        + str(numbers[-1])
    )
