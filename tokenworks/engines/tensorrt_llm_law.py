"""TensorRT-LLM's memory law: a share of what is free once weights and a forward pass are paid.

Sources: ``_cal_max_memory`` in ``tensorrt_llm/_torch/pyexecutor/_util.py`` (PyTorch backend, from
1.0: KV cache = (total - peak) x fraction); ``cpp/tensorrt_llm`` start-up logs of engines built
before (KV cache = free x fraction). Coefficients of activations: ai-dynamo/aiconfigurator 0.12.0
``sdk/memory.py``; what logs show of them is fitted: ``tokenworks/facts/memory_constants.json``.
"""

from __future__ import annotations

from tokenworks.engines.law import Budget, Row, Verdict, Workload, judge
from tokenworks.engines.tensorrt_llm import ACTIVATION_COEFFICIENTS, MINIMUM_ACTIVATION_BYTES
from tokenworks.facts.memory_constants import Constants
from tokenworks.facts.quantization import FP8, INT8
from tokenworks.sizing.memory import GIB

FIRST_PYTORCH = (1, 0, 0)
FIRST_STEADY = (1, 1, 0)
TOKENS_PER_BLOCK = 32
FRACTION = 0.9
MAX_BATCH_SIZE = 2048
MAX_NUM_TOKENS = 8192
MIXTURE = 2.0
"""A mixture's activations are twice a dense model's (22/13/10/10 against 11/6.5/5/5)."""

ENGINE_FLOW_TOKENS = 32768
"""Longest forward pass in the logs of built engines; beyond it activations are not known."""

FP8_CAPABILITY = (8, 9)


def budget(work: Workload, known: Constants) -> Budget:
    """The budget of one GPU under TensorRT-LLM, and how the start ends."""
    built = not work.newer_than(*FIRST_PYTORCH)
    fraction = work.memory_fraction or FRACTION
    activation = _activation(work, known, built=built)
    other = _decoder(work) if built else _non_torch(work, known)
    weights = work.weight_bytes + (_second_table(work) if built else 0)
    free = work.total_bytes - weights - activation - other
    kv = free * fraction
    needed = work.one_sequence_bytes(work.length, 0) if work.length else None
    logits = (work.max_num_seqs or MAX_BATCH_SIZE) * work.config.vocabulary * 4
    unsure = _doubts(work, built=built)
    verdict = judge(
        loaded=weights + other if not built else weights,
        total=work.total_bytes,
        kv=kv,
        needed=needed or 0.0,
        after=logits,
        left=max(0.0, free) * (1 - fraction) + activation,
    )
    if work.scheme is FP8 and work.card.capability < FP8_CAPABILITY:
        verdict = Verdict.DOES_NOT_FIT
        unsure = (f"{work.card.name} has no FP8 arithmetic, which TensorRT-LLM needs", *unsure)
    return Budget(
        rows=(
            Row(part="weights", size_bytes=weights, because="shapes and quantisation"),
            Row(part="activation peak", size_bytes=activation, because="fitted; one full pass"),
            Row(part="context and buffers", size_bytes=other, because="fitted"),
            Row(part="KV cache", size_bytes=kv, because=f"{fraction:g} of what is then free"),
        ),
        kv_cache_bytes=kv,
        kv_cache_tokens=_tokens(work, kv),
        needed_bytes=needed,
        after_bytes=logits,
        left_bytes=max(0.0, free) * (1 - fraction) + activation,
        verdict=None if unsure and verdict is Verdict.FITS else verdict,
        doubts=unsure,
    )


def _tokens(work: Workload, kv: float) -> int:
    blocks = max(0.0, kv) // (work.token_bytes * TOKENS_PER_BLOCK)
    return int(blocks) * TOKENS_PER_BLOCK


def _activation(work: Workload, known: Constants, *, built: bool) -> float:
    tokens = work.max_num_batched_tokens or MAX_NUM_TOKENS
    if built:
        return tokens * known["trt.built.activation_per_token"].value * GIB
    closest = min(ACTIVATION_COEFFICIENTS, key=lambda size: abs(size - work.tensor_parallel))
    scale = known["trt.activation.scale"].value
    if work.config.experts is not None:
        scale *= MIXTURE
    width = work.config.attention_heads * work.config.head_dim
    peak = 2 * tokens * width * ACTIVATION_COEFFICIENTS[closest] * scale
    return max(MINIMUM_ACTIVATION_BYTES, peak)


def _non_torch(work: Workload, known: Constants) -> float:
    """Context, libraries, NCCL; and for a mixture on several GPUs its exchange buffers."""
    if work.tensor_parallel == 1:
        return known["trt.non_torch.single"].value * GIB
    kind = "experts" if work.config.experts is not None else "group"
    return known[f"trt.non_torch.{kind}"].value * GIB


def _decoder(work: Workload) -> float:
    """Sampling buffers of a built engine: some copies of the logits of every slot."""
    batch = work.max_num_seqs or MAX_BATCH_SIZE
    return 5 * batch * work.config.vocabulary * 4


def _second_table(work: Workload) -> float:
    """Built engines hold a tied embedding table twice."""
    if not work.config.tied_embeddings:
        return 0.0
    return work.config.vocabulary * work.config.hidden_size * 2 / work.tensor_parallel


def _doubts(work: Workload, *, built: bool) -> tuple[str, ...]:
    found = []
    tokens = work.max_num_batched_tokens or MAX_NUM_TOKENS
    if built and tokens > ENGINE_FLOW_TOKENS:
        found.append(
            f"a pass of {tokens} tokens is beyond the {ENGINE_FLOW_TOKENS} that logs of built "
            "engines show"
        )
    if built and work.version is None:
        found.append("without a version it is not known whether an engine is built first")
    if work.config.kv_heads < work.tensor_parallel and not work.newer_than(*FIRST_STEADY):
        found.append(
            f"TensorRT-LLM before 1.1 with {work.config.kv_heads} KV heads on "
            f"{work.tensor_parallel} GPUs has failed with memory to spare (issue 5872)"
        )
    if work.scheme is INT8 and built:
        found.append("what SmoothQuant engines keep in 16 bits is not known")
    return tuple(found)
