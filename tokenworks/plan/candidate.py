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
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.shipped_models import models
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
    """The problem because of which a model goes no further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__()


@dataclass(frozen=True)
class _Place:
    """Where problems of one model are reported."""

    loaded: LoadedEnvironment
    index: int

    @property
    def model(self) -> Model:
        return self.loaded.environment.models[self.index]

    def problem(self, *key: str, given: object, reason: str, remedy: str) -> Problem:
        path: KeyPath = ("models", self.index, *key)
        return self.loaded.source.problem(path, given=str(given), reason=reason, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One model beside the nodes it asks for; everything it refers to is known."""

    place: _Place
    model: Model
    manifest: Manifest
    pool: NodePool
    instance: Instance
    gpu: Gpu
    config: ModelConfig

    @property
    def allowed(self) -> tuple[int, ...]:
        return sizes.allowed_tensor_parallel(self.config, self.instance)

    def budget(self, tensor_parallel: int) -> MemoryBudget:
        return sizes.budget(self.model, self.config, self.gpu, tensor_parallel)


def candidate(
    loaded: LoadedEnvironment, index: int, pools: dict[str, NodePool], lock: Lock
) -> Candidate | tuple[Problem, ...]:
    """The model at ``index``, ready for a plan, or why it cannot be served.

    ``pools`` are those that can be planned; for a model of another one nothing more is said.
    """
    place = _Place(loaded, index)
    model = place.model
    locked = lock.find(tensorrt_llm.IMAGE_REPOSITORY, model.engine.version)
    problems = tuple(_unknown_references(place, locked))
    if problems or model.node_pool not in pools or locked is None:
        return problems
    pool = pools[model.node_pool]
    case = _Case(
        place=place,
        model=model,
        manifest=loaded.manifests[model.name],
        pool=pool,
        instance=instances()[pool.instance],
        gpu=GPUS[instances()[pool.instance].gpu],
        config=models()[model.weights.repository],
    )
    return tuple(_mismatches(case)) or _fitting(case, locked)


def _fitting(case: _Case, locked: LockedImage) -> Candidate | tuple[Problem, ...]:
    try:
        tensor_parallel = _tensor_parallel(case)
        memory = _memory(case, tensor_parallel.value)
        _check_host_memory(case, tensor_parallel.value)
    except _Refused as refused:
        return (refused.problem,)
    return Candidate(
        index=case.place.index,
        model=case.model,
        manifest=case.manifest,
        pool=case.pool,
        instance=case.instance,
        gpu=case.gpu,
        config=case.config,
        locked=locked,
        memory=memory,
        tensor_parallel=tensor_parallel,
        replicas=sizes.replicas(case.model, memory),
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


def _unknown_references(place: _Place, locked: LockedImage | None) -> Iterable[Problem]:
    model = place.model
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
    elif locked is None:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"has no digest of {tensorrt_llm.IMAGE_REPOSITORY} in images.lock",
            remedy="lock the tag with its digest and where it was read, or use a locked one",
        )


def _mismatches(case: _Case) -> Iterable[Problem]:
    model, pool = case.model, case.pool
    floor = tensorrt_llm.minimum_driver_major(model.engine.version) or 0
    if int(pool.driver_version.split(".")[0]) < floor:
        yield case.place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"needs driver {floor} or newer, pool {pool.name} has {pool.driver_version}",
            remedy=f"raise driver_version of the pool to {floor} or newer",
        )
    lowest = tensorrt_llm.MINIMUM_COMPUTE_CAPABILITY
    capability = case.instance.compute_capability
    if tuple(int(part) for part in capability.split(".")) < lowest:
        yield case.place.problem(
            "node_pool",
            given=pool.name,
            reason=f"has {case.gpu.name} GPUs of compute capability {capability}, the engine "
            f"needs {lowest[0]}.{lowest[1]}",
            remedy="use a pool of newer GPUs",
        )
    longest = case.config.max_position_embeddings
    if longest is not None and model.max_model_len_tokens > longest:
        yield case.place.problem(
            "max_model_len_tokens",
            given=model.max_model_len_tokens,
            reason=f"is beyond the {longest} positions of the model",
            remedy=f"use at most {longest}",
        )


def _tensor_parallel(case: _Case) -> Decided[int]:
    asked = case.model.tensor_parallel
    if asked is None:
        return _smallest_tensor_parallel(case)
    if asked not in case.allowed:
        raise _Refused(
            case.place.problem(
                "tensor_parallel",
                given=asked,
                reason=f"does not divide the {case.instance.gpu_count} GPUs of "
                f"{case.instance.name} and the {case.config.attention_heads} attention heads of "
                "the model",
                remedy=f"use {_either(case.allowed)}",
            )
        )
    return Decided(asked, "asked for in the environment")


def _smallest_tensor_parallel(case: _Case) -> Decided[int]:
    smallest = _fewest_gpus(case)
    if smallest is None:
        raise _Refused(_does_not_fit(case, case.allowed[-1]))
    return Decided(
        smallest,
        "the fewest GPUs on which weights and one sequence of full length fit"
        if smallest > 1
        else "one GPU holds weights and KV cache; splitting would only add communication",
    )


def _fewest_gpus(case: _Case) -> int | None:
    """The fewest GPUs on which one sequence of full length fits, if any number is enough."""
    return next((size for size in case.allowed if case.budget(size).sequences >= 1), None)


def _memory(case: _Case, tensor_parallel: int) -> MemoryBudget:
    memory, model = case.budget(tensor_parallel), case.model
    if memory.sequences < 1:
        raise _Refused(_does_not_fit(case, tensor_parallel))
    held = memory.sequences * (model.replicas or 0)
    if model.replicas is not None and held < model.peak_concurrency:
        raise _Refused(
            case.place.problem(
                "replicas",
                given=model.replicas,
                reason=f"has room for {held} sequences of full length, the peak is "
                f"{model.peak_concurrency}",
                remedy=f"use {sizes.needed_replicas(model, memory)} replicas, shorter sequences "
                "or more GPUs for each",
            )
        )
    return memory


def _check_host_memory(case: _Case, tensor_parallel: int) -> None:
    needed = sizes.host_memory_mib(case.manifest.total_bytes, tensor_parallel, case.gpu)
    share = sizes.host_memory_share_mib(case.instance, tensor_parallel)
    if needed.value > share:
        raise _Refused(
            case.place.problem(
                "node_pool",
                given=case.pool.name,
                reason=f"gives a replica {share} MiB of host memory on {case.instance.name}, "
                f"needed are {needed.value} ({needed.because})",
                remedy="use an instance type with more host memory for each GPU",
            )
        )


def _does_not_fit(case: _Case, tensor_parallel: int) -> Problem:
    memory, length = case.budget(tensor_parallel), case.model.max_model_len_tokens
    table = ", ".join(f"{name} {size / GIB:.2f}" for name, size, _ in memory.rows())
    needed = memory.kv_bytes_per_token * length / GIB
    return case.place.problem(
        "max_model_len_tokens",
        given=length,
        reason=f"does not fit on {tensor_parallel} x {case.gpu.name} "
        f"({memory.usable_bytes / GIB:.2f} GiB each): {table} GiB; one sequence needs "
        f"{needed:.2f} GiB of KV cache",
        remedy=_what_would_fit(case, memory),
    )


def _what_would_fit(case: _Case, memory: MemoryBudget) -> str:
    ways = []
    if memory.kv_cache_tokens:
        ways.append(f"use at most {memory.kv_cache_tokens} tokens")
    fewest = _fewest_gpus(case)
    if fewest is not None:
        ways.append(f"use tensor_parallel {fewest}")
    return " or ".join(ways) or "use a pool with larger GPUs"


def _either(numbers: tuple[int, ...]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last
