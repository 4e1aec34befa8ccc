"""One model on its way into a plan: what it refers to is known, and it fits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from tokenworks.engines import tensorrt_llm
from tokenworks.engines.replica_memory import MemoryBudget
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock, LockedImage
from tokenworks.environment.sections import Model, NodePool
from tokenworks.errors import Problem
from tokenworks.facts.gpus import GPUS, Gpu
from tokenworks.facts.instances import Instance
from tokenworks.facts.models import BYTES_PER_PARAMETER
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.hosts.compatibility import cuda_misfits
from tokenworks.plan import sizes
from tokenworks.plan.case import Case, Place, Refused, Shape
from tokenworks.plan.fitting import Fit, fit
from tokenworks.plan.placement import Demand
from tokenworks.plan.types import Decided
from tokenworks.sizing.parallelism import Arrangement

MOST_BEYOND_SHAPES = 1.1
"""Files may hold this many times what the shapes make: scales, and tensors that are not loaded."""

ONE_GPU = Arrangement(tensor=1, pipeline=1, expert=1, data=1)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that fits, with everything its plan is made from."""

    index: int
    case: Case
    locked: LockedImage
    fit: Fit
    replicas: Decided[int]

    @property
    def model(self) -> Model:
        """The model as the environment has it."""
        return self.case.model

    @property
    def pool(self) -> NodePool:
        """The pool whose GPUs serve it."""
        return self.case.pool

    @property
    def instance(self) -> Instance:
        """The instance type of the pool."""
        return self.case.instance

    @property
    def gpu(self) -> Gpu:
        """The GPUs of the pool."""
        return self.case.gpu

    @property
    def memory(self) -> MemoryBudget:
        """Where the memory of each GPU goes."""
        return self.fit.memory

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica takes on one node."""
        return self.fit.way.gpus_per_replica

    @property
    def demand(self) -> Demand:
        """GPUs that the model asks of its pool."""
        return Demand(
            model=self.model.name,
            replicas=self.replicas.value,
            gpus_per_replica=self.gpus_per_replica,
        )


def candidate(
    loaded: LoadedEnvironment, index: int, pools: dict[str, NodePool], lock: Lock
) -> Candidate | tuple[Problem, ...]:
    """The model at ``index``, ready for a plan, or why it cannot be served.

    ``pools`` are those that can be planned; for a model of another one nothing more is said.
    """
    place = Place(loaded, index)
    model = place.model
    locked = lock.find(tensorrt_llm.IMAGE_REPOSITORY, model.engine.version)
    shape = place.shape()
    problems = tuple(_unknown_references(place, locked, shape))
    if problems or model.node_pool not in pools or locked is None or shape is None:
        return problems
    pool = pools[model.node_pool]
    case = Case(
        place=place,
        model=model,
        manifest=loaded.manifests[model.name],
        pool=pool,
        instance=pool.known_shape,
        gpu=GPUS[pool.known_shape.gpu],
        shape=shape,
    )
    return tuple(_mismatches(case)) or _fitting(case, locked)


def _fitting(case: Case, locked: LockedImage) -> Candidate | tuple[Problem, ...]:
    try:
        _check_weights(case)
        found = fit(case)
        _check_replicas(case, found.memory)
        _check_host_memory(case, found.way.gpus_per_replica)
    except Refused as refused:
        return (refused.problem,)
    return Candidate(
        index=case.place.index,
        case=case,
        locked=locked,
        fit=found,
        replicas=sizes.replicas(case.model, found.memory),
    )


def notes(ready: Candidate) -> Iterable[str]:
    """What is allowed, but should be known before the model is deployed."""
    model, needed = ready.model, sizes.needed_replicas(ready.model, ready.memory)
    if ready.replicas.value < needed:
        yield (
            f"models[{ready.index}].replicas: {ready.replicas.value} carry the peak of "
            f"{model.peak_concurrency} only while all are up; {needed} would survive a failure."
        )
    for note in ready.fit.way.notes:
        yield f"models[{ready.index}].tensor_parallel: {note}."


def _unknown_references(
    place: Place, locked: LockedImage | None, shape: Shape | None
) -> Iterable[Problem]:
    model = place.model
    declared = [pool.name for pool in place.loaded.environment.node_pools]
    if model.node_pool not in declared:
        yield place.problem(
            "node_pool",
            given=model.node_pool,
            reason="is not a node pool of this environment",
            remedy=f"use one of: {', '.join(declared)}",
        )
    if shape is None:
        known = [name for name in model_shapes() if "/" in name and " " not in name]
        near = difflib.get_close_matches(model.weights.repository, known, n=3, cutoff=0)
        yield place.problem(
            "weights",
            "repository",
            given=model.weights.repository,
            reason="is a model whose shapes are unknown",
            remedy="name its config.json in weights.config, or use one of the "
            f"{len(known)} that are known, such as {', '.join(near)}",
        )
    if tensorrt_llm.cuda_release(model.engine.version) is None:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason="is a release whose driver floor is unknown",
            remedy=f"use a release of {', '.join(tensorrt_llm.CUDA_RELEASE)}",
        )
    elif locked is None:
        yield place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"has no digest of {tensorrt_llm.IMAGE_REPOSITORY} in images.lock",
            remedy="lock the tag with its digest and where it was read, or use a locked one",
        )


def _mismatches(case: Case) -> Iterable[Problem]:
    model, pool = case.model, case.pool
    yield from _driver_too_old(case)
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
    yield from _architecture(case)
    longest = case.config.max_position_embeddings
    if longest is not None and model.max_model_len_tokens > longest:
        yield case.place.problem(
            "max_model_len_tokens",
            given=model.max_model_len_tokens,
            reason=f"is beyond the {longest} positions of the model",
            remedy=f"use at most {longest}",
        )


def _architecture(case: Case) -> Iterable[Problem]:
    """A model whose own files name an architecture that the engine does not serve."""
    stated, known = case.config.architecture, tensorrt_llm.ARCHITECTURES
    if case.shape.file is None or stated in known:
        return
    near = difflib.get_close_matches(stated, known, n=3, cutoff=0)
    yield case.place.problem(
        "weights",
        "config",
        given=case.shape.file,
        reason=f"is not understood: architectures {stated or '(nothing)'} is none that "
        f"{case.model.engine.name} serves and the memory law knows",
        remedy=f"use a model of one such as {', '.join(near)}",
    )


def _driver_too_old(case: Case) -> Iterable[Problem]:
    """Whether the pool's driver cannot carry the CUDA release in the engine's image."""
    model, pool = case.model, case.pool
    cuda = tensorrt_llm.cuda_release(model.engine.version) or ""
    for misfit in cuda_misfits(pool.driver_version or "0", cuda):
        yield case.place.problem(
            "engine",
            "version",
            given=model.engine.version,
            reason=f"cannot run on pool {pool.name}: driver {misfit.given} {misfit.reason}",
            remedy=misfit.remedy,
        )


def _check_weights(case: Case) -> None:
    """Refuse files that hold more than the shapes make: memory would be planned too small.

    Embedding tables that are tied may be stored twice; draft layers are stored and not loaded.
    """
    config, held = case.config, case.manifest.tensor_bytes
    tied = config.vocabulary * config.hidden_size * BYTES_PER_PARAMETER[config.dtype]
    shapes = case.budget(ONE_GPU).weight_bytes + (tied if config.tied_embeddings else 0)
    if config.extra_predictor or held <= MOST_BEYOND_SHAPES * shapes:
        return
    source = case.shape.file or f"the shipped shape of {config.repository}"
    raise Refused(
        case.place.problem(
            "weights",
            "manifest",
            given=case.model.weights.manifest,
            reason=f"lists {held / 10**9:.1f} GB of tensors, {source} makes {shapes / 10**9:.1f}",
            remedy="name the config.json of these weights in weights.config",
        )
    )


def _check_replicas(case: Case, memory: MemoryBudget) -> None:
    model = case.model
    held = memory.sequences * (model.replicas or 0)
    if model.replicas is not None and held < model.peak_concurrency:
        raise Refused(
            case.place.problem(
                "replicas",
                given=model.replicas,
                reason=f"has room for {held} sequences of full length, the peak is "
                f"{model.peak_concurrency}",
                remedy=f"use {sizes.needed_replicas(model, memory)} replicas, shorter sequences "
                "or more GPUs for each",
            )
        )


def _check_host_memory(case: Case, gpus: int) -> None:
    needed = sizes.host_memory_mib(case.manifest.total_bytes, gpus, case.gpu)
    share = sizes.host_memory_share_mib(case.instance, gpus)
    if needed.value > share:
        raise Refused(
            case.place.problem(
                "node_pool",
                given=case.pool.name,
                reason=f"gives a replica {share} MiB of host memory on {case.instance.name}, "
                f"needed are {needed.value} ({needed.because})",
                remedy="use an instance type with more host memory for each GPU",
            )
        )
