"""SGLang's memory law: a share of what was free before loading, for weights and KV cache together.

Source: ``python/sglang/srt/model_executor/model_runner.py`` and ``arg_groups/memory_hook.py`` of
the wheel 0.5.23: KV cache = free after loading - free before x (1 - fraction). The law reproduces
public logs to rounding once weights are known. States of linear layers come out of the same pool
in the ratio ``mamba_full_memory_ratio``. SGLang starts with a KV cache below one full sequence.
"""

from __future__ import annotations

from dataclasses import replace

from tokenworks.engines.law import (
    MOST_VISION_BYTES,
    Account,
    Budget,
    Doubt,
    Row,
    Verdict,
    Workload,
    page_cache_doubts,
    shared_memory_doubts,
)
from tokenworks.facts.cards import NVLINK_CARDS
from tokenworks.facts.memory_constants import Constants
from tokenworks.facts.quantization import NVFP4
from tokenworks.sizing.memory import GIB

FRACTIONS = {1: 0.88, 2: 0.87, 4: 0.85, 8: 0.81}
"""Default share by GPUs per replica, until it followed from the reserve below (0.4.x)."""
FRACTION_OF_MANY = 0.79
FIRST_RESERVE = (0, 5, 0)

RESERVE_BASE_BYTES = 0.5 * GIB
RESERVE_PER_TOKEN_BYTES = 1.5 * 10**6
RESERVE_PER_GPU_BYTES = GIB / 8
RESERVE_FLOOR_BYTES = 10 * GIB
LARGE_CARD_BYTES = 60 * GIB
"""The reserve from which the default fraction follows (0.5.23): 0.5 GiB + 1.5 MB per token of a
prefill chunk + 1/8 GiB per GPU, at least 10 GiB on cards above 60 GiB."""

NEEDED_SHARE_OF_RESERVE = 0.4
"""Starts with less of the reserve than the engine would keep: 0.43 (Qwen3-235B-FP8 on four H100 at
a share of 0.93) and 0.6 (QwQ-32B on four L4) went well, 0.24 did not (issue 8362)."""

VISION_SHARE = 0.95
"""What SGLang takes of its own default for a model with an ordinary vision encoder, ViT-L/14 (pull
request 6881)."""

STATE_RATIO = 0.9
"""``mamba_full_memory_ratio``: bytes of states for each byte of KV cache."""

DEFAULT_CHUNK = 8192
SMALL_CARD_CHUNK = 2048
LEAST_TOKENS = 256
FIRST_LEAN_VISION = (0, 3, 0)

TWICE_SCALED = ((0, 5, 4), (0, 5, 12))
DATA_CENTRE_BLACKWELL = 10
WEIGHTS_PER_SCALE = 16
"""Between these releases, NVFP4 experts hold their scales twice where they run on TensorRT-LLM's
kernels, the default on compute capability 10: ``create_weights`` makes placeholders of swizzled
scales that 0.5.12 frees (``sglang/srt/layers/quantization/modelopt_quant.py`` of the wheels 0.5.9
and 0.5.12). A scale is one byte for 16 weights."""


def chunk(work: Workload) -> int:
    """Tokens of one prefill chunk: as asked, else SGLang's default for this card."""
    if work.max_num_batched_tokens:
        return work.max_num_batched_tokens
    return DEFAULT_CHUNK if work.total_bytes > LARGE_CARD_BYTES / 2 else SMALL_CARD_CHUNK


def default_fraction(work: Workload) -> float:
    """Share of memory for weights and KV cache when none is asked for."""
    gpus = work.tensor_parallel * work.pipeline_parallel
    if not work.newer_than(*FIRST_RESERVE):
        return FRACTIONS.get(gpus, FRACTION_OF_MANY)
    reserve = RESERVE_BASE_BYTES + RESERVE_PER_TOKEN_BYTES * chunk(work)
    reserve += RESERVE_PER_GPU_BYTES * gpus
    if work.total_bytes > LARGE_CARD_BYTES:
        reserve = max(reserve, RESERVE_FLOOR_BYTES)
    share = max(0.1, round(1 - reserve / work.total_bytes, 3))
    return share * VISION_SHARE if work.config.multimodal else share


def second_scales_bytes(work: Workload) -> float:
    """Bytes on one GPU of the second copy of the scales of NVFP4 experts, where there is one."""
    experts, capability = work.config.experts, work.card.capability
    if experts is None or work.scheme is not NVFP4 or capability is None or work.version is None:
        return 0.0
    twice = TWICE_SCALED[0] <= work.version < TWICE_SCALED[1]
    if not twice or capability[0] != DATA_CENTRE_BLACKWELL:
        return 0.0
    each = 3 * work.config.hidden_size * experts.intermediate_size / WEIGHTS_PER_SCALE
    return experts.layers * experts.count * each / work.tensor_parallel * work.stage_share


def budget(work: Workload, known: Constants) -> Budget:
    """The budget of one GPU under SGLang, and how the start ends."""
    fraction = work.memory_fraction or default_fraction(work)
    context = _context(work, known)
    free = work.total_bytes - context
    weights = work.weight_bytes + second_scales_bytes(work)
    pool = free * fraction - weights
    kv = pool / (1 + STATE_RATIO) if work.config.linear is not None and pool > 0 else pool
    per_token = work.token_bytes
    after = _after(work)
    account = Account(
        loaded=weights + context,
        total=work.total_bytes,
        kv=kv,
        needed=LEAST_TOKENS * per_token,
        after=after,
        left=free * (1 - fraction),
        share=fraction * (kv / pool if pool > 0 else 1.0),
        left_share=1 - fraction,
    )
    doubts = _doubts(work, fraction)
    return Budget(
        rows=(
            Row(part="weights", size_bytes=weights, because="shapes and quantisation"),
            Row(part="context and NCCL", size_bytes=context, because="fitted"),
            Row(part="states", size_bytes=max(0.0, pool - kv), because="linear layers"),
            Row(part="KV cache", size_bytes=kv, because=f"{fraction:g} of free less weights"),
            Row(part="after the KV cache", size_bytes=after, because="0.4 of SGLang's reserve"),
        ),
        kv_cache_bytes=kv,
        kv_cache_tokens=max(0, int(kv // per_token)),
        needed_bytes=account.needed,
        after_bytes=after,
        left_bytes=account.left,
        estimate=account.verdict,
        verdict=account.safe_verdict(doubts),
        doubts=tuple(doubt.because for doubt in doubts),
    )


def _after(work: Workload) -> float:
    """What is taken once the KV cache is there."""
    reserve = RESERVE_BASE_BYTES + RESERVE_PER_TOKEN_BYTES * chunk(work)
    return reserve * NEEDED_SHARE_OF_RESERVE


def _context(work: Workload, known: Constants) -> float:
    """What is taken before SGLang first looks: the context, and NCCL's buffers since 0.5."""
    kind = "single" if work.tensor_parallel == 1 else "group"
    linked = kind == "group" and work.card.name in NVLINK_CARDS
    if linked and work.newer_than(*FIRST_RESERVE) is not False:
        kind = "nvlink"
    return known[f"sglang.context.{kind}"].value * GIB


def _doubts(work: Workload, fraction: float) -> tuple[Doubt, ...]:
    found = [
        *shared_memory_doubts(work, seen_when_sizing=True),
        *(replace(d, before_bytes=d.before_bytes / fraction) for d in page_cache_doubts(work)),
    ]
    reserved = work.memory_fraction is None and work.newer_than(*FIRST_RESERVE)
    if work.config.multimodal and not reserved:
        because = "a vision encoder may take 4 GiB when it first runs"
        found.append(Doubt(because=because, after_bytes=MOST_VISION_BYTES))
    if work.config.multimodal and work.newer_than(*FIRST_LEAN_VISION) is False:
        because = (
            "SGLang before 0.3 ran out of memory while loading vision models with memory to "
            "spare (issue 485, pull request 1249)"
        )
        found.append(Doubt(because=because, known_end=Verdict.DOES_NOT_FIT))
    return tuple(found)
