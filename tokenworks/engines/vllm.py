"""vLLM's memory law: a share of total memory, less what a profiled forward pass leaves behind.

Sources: ``vllm/v1/worker/gpu_worker.py`` and ``vllm/v1/worker/utils.py`` of the wheel 0.33.0
(requested = total x fraction; KV cache = requested - weights - activation peak - non-torch growth,
from 0.21.0 also less the estimated CUDA graphs, pull request 30515); defaults by card from the
same wheel. What is taken at each step is fitted: ``tokenworks/facts/memory_constants.json``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
from tokenworks.facts.quantization import Covers
from tokenworks.sizing.memory import GIB

BLOCK_TOKENS = 16
LARGE_CARD_GIB = 70.0
LARGEST_CARD_GIB = 160.0
FIRST_V1 = (0, 8, 0)
FIRST_LEAN_SAMPLER = (0, 17, 0)
FIRST_GRAPHS_COUNTED = (0, 21, 0)
FIRST_MIXED_PAGES = (0, 21, 0)
FIRST_HYBRID = (0, 10, 0)
FIRST_LATENT = (0, 7, 1)
FIRST_PADDED_SLICES = (0, 12, 0)
V0_BATCHED_TOKENS = 2048
V0_CHUNKED_BEYOND = 32768
"""Before V1, prompts were prefilled in one pass unless a model was longer than this."""

LARGEST_CAPTURE = 512
"""vLLM captures graphs for batches up to this or twice the sequences, whichever is smaller."""

LOGIT_BYTES = 4
ROW_BYTES = 2
"""vLLM samples in 32 bits and passes activations in 16."""

STATES_PER_SEQUENCE = 2
"""Blocks of state that one sequence holds with prefix caching: the running one and the last kept
one (Qwen3.6-35B-A3B on 0.24.0: 5.98 GiB for 4.33 sequences of 131072 tokens)."""

MOST_GRAPHS_BYTES = 3 * GIB
"""What vLLM itself warned of until 0.7: "CUDA graphs can take additional 1~3 GiB memory per GPU";
a group of GPUs that had 2.2 GiB for them failed (vllm-project/vllm issue 7593)."""

FIRST_TRUE_UNIFIED = (0, 17, 0)
"""Since then vLLM reads on unified memory what is available, page cache included (vllm-project/vllm
pull request 35356, merged after 0.16)."""

OLD_FAULT = ((0, 2, 5), (0, 4, 0))
"""Releases of which issue 2248 says that they found no memory for the cache with much to spare."""


@dataclass(frozen=True)
class _Limits:
    """What the scheduler may put into one forward pass."""

    sequences: int
    tokens: int


def default_fraction(work: Workload) -> float:
    """Share of total memory that vLLM takes: 0.9, and 0.92 since graphs are part of it.

    0.92 is the default of 0.33.0 and of logs of the 0.21 line (noonghunna/club-3090 issue 127).
    """
    return 0.92 if work.newer_than(*FIRST_GRAPHS_COUNTED) else 0.9


def limits(work: Workload) -> _Limits:
    """Sequences and tokens of one pass: as asked, else vLLM's default for this card."""
    large = work.card.total_gib >= LARGE_CARD_GIB and not work.card.name.startswith("a100")
    if work.newer_than(*FIRST_V1) is False:
        chunked = (work.length or 0) > V0_CHUNKED_BEYOND
        tokens = V0_BATCHED_TOKENS if chunked else max(work.length or 0, V0_BATCHED_TOKENS)
        return _Limits(work.max_num_seqs or 256, work.max_num_batched_tokens or tokens)
    tokens = 8192 if large else 2048
    if work.card.total_gib >= LARGEST_CARD_GIB and work.newer_than(*FIRST_GRAPHS_COUNTED):
        tokens = 16384
    sequences = work.max_num_seqs or (1024 if large else 256)
    return _Limits(min(sequences, 2**20), work.max_num_batched_tokens or tokens)


def activation_bytes(work: Workload, known: Constants) -> float:
    """Peak of the profiled pass: the larger of the layers' and the sampler's, and MoE workspace.

    The layers hold gate, up and their product beside some rows of the hidden size; the sampler
    holds copies of the logits of every sequence that may run at once.
    """
    limit, config = limits(work), work.config
    lean = work.newer_than(*FIRST_LEAN_SAMPLER) is True
    copies = known["vllm.sampler.lean" if lean else "vllm.sampler.full"].value
    hidden = limit.tokens * config.hidden_size * ROW_BYTES
    sampler = copies * limit.sequences * config.vocabulary * LOGIT_BYTES
    sampler += known["vllm.pass.hidden"].value * hidden
    inner = config.intermediate_size or 4 * config.hidden_size
    layers = limit.tokens * 3 * inner / work.tensor_parallel * ROW_BYTES
    layers += known["vllm.layers.hidden"].value * hidden
    last_stage = work.pipeline_parallel == 1
    peak = max(sampler, layers) if last_stage else layers
    return peak + known["vllm.moe.workspace"].value * _routed(work, limit.tokens)


def _routed(work: Workload, tokens: int) -> float:
    """Rows that routed tokens take on their way through experts; MXFP4 kernels keep none."""
    experts = work.config.experts
    if experts is None or work.scheme.covers is Covers.EXPERTS:
        return 0.0
    width = 2 * experts.intermediate_size / work.tensor_parallel + work.config.hidden_size
    return tokens * experts.per_token * width * ROW_BYTES


def non_torch_bytes(work: Workload, known: Constants) -> float:
    """What CUDA libraries and NCCL take while a model is loaded and profiled."""
    if work.pipeline_parallel > 1 and work.tensor_parallel == 1:
        return known["vllm.non_torch.pipeline"].value * GIB
    if work.tensor_parallel > 1 and work.card.name not in NVLINK_CARDS:
        return known["vllm.non_torch.pcie"].value * GIB
    age = "new" if work.newer_than(*FIRST_LEAN_SAMPLER) else "old"
    kind = "group" if work.tensor_parallel > 1 else "single"
    return known[f"vllm.non_torch.{kind}.{age}"].value * GIB


def graph_bytes(work: Workload, known: Constants) -> float:
    """What captured CUDA graphs take."""
    if not work.newer_than(*FIRST_LEAN_SAMPLER):
        return max(0.0, known["vllm.graphs.old"].value) * GIB
    layers = math.ceil(work.config.layers / work.pipeline_parallel)
    size = known["vllm.graphs.base"].value + known["vllm.graphs.layer"].value * layers
    if work.config.experts is not None:
        size += known["vllm.graphs.experts"].value
    captured = min(1.0, 2 * limits(work).sequences / LARGEST_CAPTURE)
    return max(0.0, size * captured) * GIB


def context_bytes(work: Workload, known: Constants) -> float:
    """What is taken before vLLM looks at free memory for the first time: context and NCCL.

    Before V1 it looked before it joined the group, so that NCCL came out of its share
    (``init_device`` in ``vllm/worker/worker.py`` of the wheels 0.6.6 and 0.7.3).
    """
    kind = "group" if work.card.name in NVLINK_CARDS else "pcie"
    alone = work.tensor_parallel * work.pipeline_parallel == 1
    if alone or work.newer_than(*FIRST_V1) is False:
        kind = "single"
    return known[f"vllm.context.{kind}"].value * GIB


def token_bytes(work: Workload) -> float:
    """Bytes of one token as vLLM's pools hold it: groups of layers padded to one size."""
    config = work.config
    if config.latent is not None and work.newer_than(*FIRST_LATENT) is False:
        wide = config.latent.nope_head_dim + config.latent.rope_head_dim
        padded = math.ceil(wide / 64) * 64
        heads = config.attention_heads / work.heads_divided_by
        return config.layers * heads * 2 * padded * work.kv_cache_bytes * work.stage_share
    return work.token_bytes * padded_share(work)


def padded_share(work: Workload) -> float:
    """How many times its layers a mix of full and sliding ones takes: groups of equal size."""
    counts = [group.layers for group in work.config.groups]
    smallest = min(counts)
    padded = sum(math.ceil(number / smallest) * smallest for number in counts)
    return padded / sum(counts) if len(counts) > 1 else 1.0


def windows_saved(work: Workload) -> bool:
    """Whether sliding layers keep only their window.

    Layers of one page size are pooled so since 0.10 (``disable_hybrid_kv_cache_manager``), those of
    several sizes since 0.21: Gemma-4-31B held 55 thousand tokens in 0.20 and 525 thousand in 0.21
    (vllm-project/vllm issue 43308).
    """
    groups = work.config.groups
    if len({group.window for group in groups}) == 1:
        return False
    alike = len({group.kv_heads * group.row for group in groups}) == 1
    return work.newer_than(*(FIRST_HYBRID if alike else FIRST_MIXED_PAGES)) is not False


def sequence_need(work: Workload, tokens: int) -> float:
    """Bytes of one sequence of so many tokens."""
    if windows_saved(work):
        return work.one_sequence_bytes(tokens, limits(work).tokens) * padded_share(work)
    state = work.one_sequence_bytes(0, 0)
    return tokens * token_bytes(work) + STATES_PER_SEQUENCE * state


def doubts(work: Workload, graphs: float, missing: float, known: Constants) -> tuple[Doubt, ...]:
    """Why this start may need more than the fitted constants say."""
    found = [
        *shared_memory_doubts(work, seen_when_sizing=False),
        *_close(work, known, missing),
    ]
    if not work.newer_than(*FIRST_TRUE_UNIFIED):
        found.extend(page_cache_doubts(work))
    if work.config.multimodal:
        because = "profiling a vision encoder may take 4 GiB more"
        found.append(Doubt(because=because, before_bytes=MOST_VISION_BYTES))
    if work.newer_than(*FIRST_V1) is False:
        most = _most_graphs(work, known)
        because = f"vLLM before 0.8 may take up to {most / GIB:.1f} GiB for CUDA graphs"
        found.append(Doubt(because=because, after_bytes=max(0.0, most - graphs)))
    if work.version is not None and OLD_FAULT[0] <= work.version < OLD_FAULT[1]:
        because = "vLLM 0.2.5 to 0.3 found no memory for its cache with GiB to spare (issue 2248)"
        found.append(Doubt(because=because, known_end=Verdict.KV_TOO_SMALL))
    return tuple(found)


def _most_graphs(work: Workload, known: Constants) -> float:
    """What graphs of the first engine took at most: on one GPU as logs show, else as it warned."""
    alone = work.tensor_parallel == 1
    return known["vllm.graphs.old"].highest * GIB if alone else MOST_GRAPHS_BYTES


def budget(work: Workload, known: Constants) -> Budget:
    """The budget of one GPU under vLLM, and how the start ends."""
    fraction = work.memory_fraction or default_fraction(work)
    total, requested = work.total_bytes, work.total_bytes * fraction
    activation, graphs = activation_bytes(work, known), graph_bytes(work, known)
    libraries, context = non_torch_bytes(work, known), context_bytes(work, known)
    counted = graphs if work.newer_than(*FIRST_GRAPHS_COUNTED) else 0.0
    kv = requested - work.weight_bytes - activation - libraries - counted
    needed = sequence_need(work, work.length) if work.length else None
    after = _after(work, known, graphs) - counted
    account = Account(
        loaded=work.weight_bytes + context,
        total=total,
        kv=kv,
        needed=needed or 0.0,
        after=after,
        left=total - requested,
    )
    unsure = doubts(work, graphs, after - total + requested, known)
    return Budget(
        rows=(
            Row(part="weights", size_bytes=work.weight_bytes, because="shapes and quantisation"),
            Row(part="activation peak", size_bytes=activation, because="fitted; one full pass"),
            Row(part="libraries and NCCL", size_bytes=libraries, because="fitted"),
            Row(part="CUDA graphs counted", size_bytes=counted, because="from 0.21.0"),
            Row(part="KV cache", size_bytes=kv, because=f"{fraction:g} of total less all above"),
            Row(part="after the KV cache", size_bytes=after, because="context, graphs, libraries"),
        ),
        kv_cache_bytes=kv,
        kv_cache_tokens=_tokens(work, kv),
        needed_bytes=needed,
        after_bytes=after,
        left_bytes=total - requested,
        estimate=account.verdict,
        verdict=account.safe_verdict(unsure),
        doubts=tuple(doubt.because for doubt in unsure),
    )


def _close(work: Workload, known: Constants, missing: float) -> tuple[Doubt, ...]:
    """The doubt that what is missing after the KV cache is less than graphs are known to vary."""
    names = ["vllm.graphs.base", "vllm.graphs.experts"] if work.config.experts else []
    names = names or ["vllm.graphs.base"]
    spread = sum(known[name].highest - known[name].lowest for name in names) / 2 * GIB
    if work.scheme.covers is Covers.EXPERTS or not 0 < missing <= spread:
        return ()
    size = f"{missing / GIB:.1f} GiB"
    because = f"what follows the KV cache misses {size}, which is less than CUDA graphs vary"
    return (Doubt(because=because),)


def _after(work: Workload, known: Constants, graphs: float) -> float:
    """What is taken beside the budget once the KV cache is there: graphs, late libraries.

    The sampler's warm-up is paid from the activation peak, which was profiled with it; MXFP4
    kernels load more when they first run, which is what stopped gpt-oss at a share of 0.95.
    """
    late = graphs
    if work.scheme.covers is Covers.EXPERTS:
        late = max(late, known["vllm.after.mxfp4"].value * GIB)
    return context_bytes(work, known) + late


def _tokens(work: Workload, kv: float) -> int | None:
    """Tokens as vLLM reports them: whole blocks, or sequences of full length where they differ."""
    if kv <= 0:
        return 0
    mixed = len(work.config.groups) > 1 or work.config.linear is not None
    if mixed and work.length and (windows_saved(work) or work.config.linear is not None):
        return int(kv / sequence_need(work, work.length) * work.length)
    return int(kv // (token_bytes(work) * BLOCK_TOKENS)) * BLOCK_TOKENS
