"""TensorRT-LLM's memory law: a share of what is free once weights and a forward pass are paid.

Sources: ``_cal_max_memory`` in ``tensorrt_llm/_torch/pyexecutor/_util.py`` (PyTorch backend, from
1.0: KV cache = (total - peak) x fraction); ``cpp/tensorrt_llm`` start-up logs of engines built
before (KV cache = free x fraction). Coefficients of activations: ai-dynamo/aiconfigurator 0.12.0
``sdk/memory.py``; what logs show of them is fitted: ``tokenworks/facts/memory_constants.json``.
"""

from __future__ import annotations

from dataclasses import replace

from tokenworks.engines.law import (
    Account,
    Budget,
    Doubt,
    Row,
    Verdict,
    Workload,
    page_cache_doubts,
    shared_memory_doubts,
)
from tokenworks.engines.tensorrt_llm import ACTIVATION_COEFFICIENTS, MINIMUM_ACTIVATION_BYTES
from tokenworks.facts.memory_constants import Constant, Constants
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

FIRST_LEAN_BUILD = (0, 8, 0)
FP8_CAPABILITY = (8, 9)
LOGIT_BYTES = 4
LOGIT_COPIES = 5


def budget(work: Workload, known: Constants) -> Budget:
    """The budget of one GPU under TensorRT-LLM, and how the start ends."""
    built = not work.newer_than(*FIRST_PYTORCH)
    fraction = work.memory_fraction or FRACTION
    activation = _activation(work, known, built=built)
    other = _decoder(work) if built else _libraries(work, known).value * GIB
    weights = work.weight_bytes + (_second_table(work) if built else 0)
    free = work.total_bytes - weights - activation - other
    kv = free * fraction
    needed = _one_sequence(work, work.length) if work.length else None
    logits = (work.max_num_seqs or MAX_BATCH_SIZE) * work.config.vocabulary * LOGIT_BYTES
    account = Account(
        loaded=weights + other if built else weights,
        total=work.total_bytes,
        kv=kv,
        needed=needed or 0.0,
        after=logits,
        left=max(0.0, free) * (1 - fraction) + activation,
        share=fraction,
        left_share=1 - fraction,
    )
    unsure = _doubts(work, known, built=built)
    of_pass, of_rest = _evidence(work, known, built=built)
    return Budget(
        rows=(
            Row(part="weights", size_bytes=weights, because="shapes and quantisation"),
            Row(part="activation peak", size_bytes=activation, because=of_pass),
            Row(part="context and buffers", size_bytes=other, because=of_rest),
            Row(part="KV cache", size_bytes=kv, because=f"{fraction:g} of what is then free"),
        ),
        kv_cache_bytes=kv,
        kv_cache_tokens=_tokens(work, kv),
        needed_bytes=needed,
        after_bytes=logits,
        left_bytes=account.left,
        estimate=account.verdict,
        verdict=account.safe_verdict(unsure),
        doubts=tuple(doubt.because for doubt in unsure),
    )


def _one_sequence(work: Workload, tokens: int) -> float:
    """Bytes of one sequence: sliding layers keep all unless ``max_attention_window`` is set."""
    return tokens * work.token_bytes + work.one_sequence_bytes(0, 0)


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


def _evidence(work: Workload, known: Constants, *, built: bool) -> tuple[str, str]:
    """What the figures of a forward pass and of all else beside weights rest on."""
    if built:
        logs = known["trt.built.activation_per_token"].evidence
        return f"one full pass, {logs}", f"{LOGIT_COPIES} copies of the logits of every slot"
    logs = known["trt.activation.scale"].evidence
    return f"one full pass, {logs}", _libraries(work, known).evidence


def _libraries(work: Workload, known: Constants) -> Constant:
    """Context, libraries, NCCL; and for a mixture on several GPUs its exchange buffers."""
    if work.tensor_parallel == 1:
        return known["trt.non_torch.single"]
    kind = "experts" if work.config.experts is not None else "group"
    return known[f"trt.non_torch.{kind}"]


def _decoder(work: Workload) -> float:
    """Sampling buffers of a built engine: some copies of the logits of every slot."""
    batch = work.max_num_seqs or MAX_BATCH_SIZE
    return LOGIT_COPIES * batch * work.config.vocabulary * LOGIT_BYTES


def _second_table(work: Workload) -> float:
    """Built engines hold a tied embedding table twice."""
    if not work.config.tied_embeddings:
        return 0.0
    return work.config.vocabulary * work.config.hidden_size * 2 / work.tensor_parallel


def _spread(work: Workload, known: Constants) -> Doubt:
    """What the PyTorch backend took at most in the few logs that there are of it."""
    at_most = {name: replace(found, value=found.highest) for name, found in known.items()}
    activation = _activation(work, at_most, built=False) - _activation(work, known, built=False)
    libraries = _libraries(work, at_most).value - _libraries(work, known).value
    other = libraries * GIB
    logs = known["trt.activation.scale"].n
    size = f"{(activation + other) / GIB:.1f} GiB"
    because = (
        f"what is taken beside weights is fitted to {logs} logs, of which one took {size} more"
    )
    return Doubt(because=because, before_bytes=activation + other)


def _doubts(work: Workload, known: Constants, *, built: bool) -> tuple[Doubt, ...]:
    found = [*shared_memory_doubts(work, seen_when_sizing=True), *page_cache_doubts(work)]
    tokens = work.max_num_batched_tokens or MAX_NUM_TOKENS
    if built and tokens > ENGINE_FLOW_TOKENS:
        rate = known["trt.built.activation_per_token"]
        grown = tokens * (rate.highest - rate.value) * GIB
        logits = tokens * work.config.vocabulary * LOGIT_BYTES
        because = (
            f"a pass of {tokens} tokens is beyond the {ENGINE_FLOW_TOKENS} that logs of built "
            "engines show, and may hold the logits of each"
        )
        found.append(Doubt(because=because, before_bytes=grown + logits))
    if not built:
        found.append(_spread(work, known))
    if work.config.kv_heads < work.tensor_parallel and not work.newer_than(*FIRST_STEADY):
        because = (
            f"TensorRT-LLM before 1.1 with {work.config.kv_heads} KV heads on "
            f"{work.tensor_parallel} GPUs has failed with memory to spare (issue 5872)"
        )
        found.append(Doubt(because=because, known_end=Verdict.DOES_NOT_FIT))
    if work.newer_than(*FIRST_LEAN_BUILD) is False:
        because = (
            "building an engine before 0.8 asks for the weights a second time (issues 102, 346)"
        )
        found.append(Doubt(because=because, loading_bytes=work.weight_bytes))
    if work.scheme is INT8 and built:
        because = "what SmoothQuant engines keep in 16 bits is not known, at most all of it"
        found.append(Doubt(because=because, before_bytes=work.weight_bytes))
    if work.scheme is FP8 and work.card.lacks(FP8_CAPABILITY):
        because = f"{work.card.name} has no FP8 arithmetic, which TensorRT-LLM needs"
        found.append(Doubt(because=because, known_end=Verdict.DOES_NOT_FIT))
    return tuple(found)
