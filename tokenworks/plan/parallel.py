"""Parallelism of one replica: what may be asked for, and why it is as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenworks.errors import Problem
from tokenworks.plan.case import Case, Refused
from tokenworks.plan.types import Decided
from tokenworks.sizing.parallelism import Arrangement, tensor_parallel_sizes

ASKED = "asked for in the environment"

ONE_NODE = (
    "a replica on several nodes is not supported here: trtllm-serve would need a leader and "
    "workers that start together"
)


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """How one replica is spread, each number with its reason."""

    tensor: Decided[int]
    pipeline: Decided[int]
    expert: Decided[int]
    attention_data: Decided[bool]


def check(case: Case) -> None:
    """Refuse what an environment asks for and nothing can give.

    Raises:
        Refused: with the first such key.
    """
    problem = next(_problems(case), None)
    if problem is not None:
        raise Refused(problem)


def _problems(case: Case) -> Iterator[Problem]:
    yield from _tensor(case)
    yield from _pipeline(case)
    yield from _expert(case)
    yield from _attention(case)


def _tensor(case: Case) -> Iterator[Problem]:
    asked, allowed = case.wanted.tensor, _allowed(case)
    if asked is not None and asked not in allowed:
        yield case.place.problem(
            "tensor_parallel",
            given=asked,
            reason=f"does not divide {' and '.join(_undivided(case, asked))}",
            remedy=f"use {_either(allowed)}",
        )


def _undivided(case: Case, size: int) -> list[str]:
    """The first two things that a tensor parallelism does not divide."""
    config, gpus = case.config, case.instance.gpu_count
    widths = [config.intermediate_size] if config.dense_layers else []
    widths += [config.experts.intermediate_size] if config.experts else []
    counted = (
        (gpus, f"the {gpus} GPUs of {case.instance.name}"),
        (config.attention_heads, f"the {config.attention_heads} attention heads of the model"),
        (config.kv_heads, f"the {config.kv_heads} KV heads of the model"),
        (config.vocabulary, f"its vocabulary of {config.vocabulary}"),
        *((width, f"its width of {width}") for width in widths),
    )
    return [what for number, what in counted if number % size][:2]


def _pipeline(case: Case) -> Iterator[Problem]:
    stages, gpus = case.wanted.pipeline or 1, case.instance.gpu_count
    if stages > case.config.layers:
        yield case.place.problem(
            "pipeline_parallel",
            given=stages,
            reason=f"is more than the {case.config.layers} layers of the model",
            remedy="use fewer stages",
        )
    needed = (case.wanted.tensor or 1) * stages
    if needed > gpus:
        yield case.place.problem(
            "pipeline_parallel",
            given=stages,
            reason=f"asks for {needed} GPUs, more than the {gpus} of one {case.instance.name}, and "
            f"{ONE_NODE}",
            remedy="leave it out, and the fewest GPUs of one node that fit are taken; where none "
            "are enough, the plan says what would be",
        )


def _expert(case: Case) -> Iterator[Problem]:
    asked, tensor, experts = case.wanted.expert, case.wanted.tensor, case.config.experts
    if asked is None or asked == 1:
        return
    count = experts.count if experts else 0
    reason = None
    if not count:
        reason = "asks to spread experts, and the model is no mixture of them"
    elif count % asked:
        reason = f"does not divide the {count} experts of the model"
    elif tensor is not None and tensor % asked:
        reason = f"does not divide tensor_parallel, which is {tensor}"
    elif all(size % asked for size in _allowed(case)):
        reason = f"divides no tensor parallelism that is allowed ({_either(_allowed(case))})"
    if reason is not None:
        remedy = "leave it out, or use a divisor of tensor_parallel and of the experts"
        yield case.place.problem("expert_parallel", given=asked, reason=reason, remedy=remedy)


def _attention(case: Case) -> Iterator[Problem]:
    if not case.wanted.attention_data:
        return
    reason = None
    if case.config.experts is None:
        reason = "would hold all of a model that is no mixture on each GPU"
    elif _allowed(case)[-1] == 1 or case.wanted.tensor == 1:
        reason = "has a single GPU for each layer"
    if reason is not None:
        remedy = "leave it out; replicas do the same with nothing in common"
        yield case.place.problem(
            "attention_data_parallel", given="true", reason=reason, remedy=remedy
        )


def _allowed(case: Case) -> tuple[int, ...]:
    return tensor_parallel_sizes(case.config, case.instance.gpu_count)


def _either(numbers: tuple[int, ...]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last


def reasons(case: Case, way: Arrangement) -> Parallel:
    """Every number of an arrangement that fits, with its reason."""
    return Parallel(
        tensor=Decided(way.tensor, _why_tensor(case, way), ("memory",)),
        pipeline=Decided(way.pipeline, _why_stages(case, way), ("memory", "model_shape")),
        expert=Decided(way.expert, _why_expert(case, way), ("tensor_parallel", "model_shape")),
        attention_data=Decided(way.attention_data, _why_attention(case, way), ("tensor_parallel",)),
    )


def _why_tensor(case: Case, way: Arrangement) -> str:
    if case.wanted.tensor is not None:
        return ASKED
    if way.gpus_per_replica == 1:
        return "one GPU holds weights and KV cache; splitting would only add communication"
    links = case.instance.interconnect or "unknown links"
    fewest = "the fewest GPUs on which weights and one sequence of full length fit"
    return f"{fewest}; within one node, over {links}"


def _why_stages(case: Case, way: Arrangement) -> str:
    if case.wanted.pipeline is not None:
        return ASKED
    if way.pipeline == 1:
        return "every GPU holds a part of all layers; stages are for heads that no more GPUs divide"
    config, gpus = case.config, way.gpus_per_replica
    return (
        f"{config.attention_heads} attention and {config.kv_heads} KV heads cannot be divided over "
        f"{gpus} GPUs, so the {config.layers} layers are"
    )


def _why_expert(case: Case, way: Arrangement) -> str:
    if case.wanted.expert is not None:
        return ASKED
    experts = case.config.experts
    if experts is None:
        return "the model is no mixture of experts"
    if way.tensor == 1:
        return f"one GPU holds all {experts.count} experts of its layers"
    if way.expert == 1:
        return f"{experts.count} experts are not divided by {way.tensor}, so each GPU has a slice"
    each, slice_ = experts.count // way.expert, experts.intermediate_size // way.tensor
    return (
        f"each GPU holds {each} of {experts.count} experts whole; a slice of every one would be "
        f"{slice_} wide"
    )


def _why_attention(case: Case, way: Arrangement) -> str:
    if way.attention_data:
        return f"{ASKED}; each of {way.tensor} GPUs caches other sequences"
    if case.config.latent is not None and way.tensor > 1:
        return (
            f"not asked for; latent attention keeps the same cache on each of {way.tensor} GPUs, "
            "with it each would keep its own"
        )
    return "not asked for; each request is computed by all GPUs of the replica"
