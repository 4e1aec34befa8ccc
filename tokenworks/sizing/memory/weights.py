"""Bytes of weights on one GPU: counted from tensor shapes, stored as their quantisation says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tokenworks.facts.models import BYTES_PER_PARAMETER, ModelConfig
from tokenworks.facts.quantization import MXFP4, NONE, NVFP4, Covers, Scheme
from tokenworks.sizing.memory.kv import kv_heads_per_gpu

GIB = 2**30
MIB = 2**20

MXFP4_HIDDEN_MULTIPLE = 256
MXFP4_SLICE_MULTIPLE = 128
"""Engines pad MXFP4 experts to whole tiles: gpt-oss's 2880 to 3072 wide, and each GPU's slice of
the inner size to a multiple of 128, for Marlin's and TensorRT-LLM's kernels alike
(``vllm/model_executor/layers/fused_moe/oracle/mxfp4.py`` of the wheel 0.28.0; 20B at one and two
GPUs, 120B at one: within 1.5 % of logs)."""

VOCABULARY_MULTIPLE = 64
"""vLLM and SGLang pad embedding tables to it (``pad_vocab_size``)."""

VISION_PARAMETERS = 428_000_000
"""Of a usual vision encoder (google/siglip-so400m-patch14-384), for a model that has one and whose
total nobody states: granite-vision-3.3-2b takes 5.54 GiB in vLLM, its decoder alone 4.73."""

MOST_LEFT_OVER = 0.35
MOST_PREDICTOR = 0.05
LEAST_UNPACKED = 0.9
"""How far a published total may be from the shapes before it is taken to count something else."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameter counts of one model, apart by how they are split and whether they are quantised.

    ``latent_shared`` and ``norms`` are held whole by every GPU, ``key_and_value`` follows the KV
    heads, everything else is divided. ``left_over`` is what a published total counts beyond the
    shapes: vision towers, mostly.
    """

    query_and_output: int
    key_and_value: int
    latent_shared: int
    linear_attention: int
    feed_forward: int
    experts: int
    embeddings: int
    norms: int
    left_over: int = 0

    @property
    def total(self) -> int:
        """All parameters."""
        attention = self.query_and_output + self.key_and_value + self.latent_shared
        mixed = self.linear_attention + self.feed_forward + self.experts
        return attention + mixed + self.embeddings + self.norms + self.left_over


def parameters(config: ModelConfig) -> Parameters:
    """Count the parameters of a decoder from the shapes of its tensors."""
    query, shared, key = _attention(config)
    hidden = config.hidden_size
    experts = config.experts
    routed = (
        experts.layers * experts.count * 3 * hidden * experts.intermediate_size if experts else 0
    )
    mixed = experts.layers * 3 * hidden * experts.shared_intermediate_size if experts else 0
    dense = config.dense_layers * 3 * hidden * config.intermediate_size
    router = experts.layers * hidden * experts.count if experts else 0
    per_layer = 2 * hidden + (2 * config.head_dim if config.normalises_queries_and_keys else 0)
    per_layer += _bias(config)
    return Parameters(
        query_and_output=query,
        key_and_value=key,
        latent_shared=shared,
        linear_attention=_linear_attention(config),
        feed_forward=dense + mixed,
        experts=routed,
        embeddings=(1 if config.tied_embeddings else 2) * config.vocabulary * hidden,
        norms=config.layers * per_layer + hidden + router,
    )


def _bias(config: ModelConfig) -> int:
    if not config.biased_queries:
        return 0
    return (config.attention_heads + 2 * config.kv_heads) * config.head_dim


def _attention(config: ModelConfig) -> tuple[int, int, int]:
    """Parameters that are divided, held whole, and that follow the KV heads."""
    hidden, heads, latent = config.hidden_size, config.attention_heads, config.latent
    if latent is None:
        query = key = 0
        for group in config.groups:
            gate = 2 if config.gated_attention else 1
            query += group.layers * hidden * heads * group.head_dim * gate
            query += group.layers * hidden * heads * (group.values or group.head_dim)
            key += group.layers * hidden * group.kv_heads * group.row
        return query, 0, key
    wide = latent.nope_head_dim + latent.rope_head_dim
    shared = hidden * (latent.q_lora_rank + latent.kv_lora_rank + latent.rope_head_dim)
    divided = (latent.q_lora_rank or hidden) * heads * wide
    divided += latent.kv_lora_rank * heads * (latent.nope_head_dim + latent.v_head_dim)
    divided += heads * latent.v_head_dim * hidden
    return config.layers * divided, config.layers * shared, 0


def _linear_attention(config: ModelConfig) -> int:
    if config.linear is None:
        return 0
    return config.linear.layers * config.linear.projection_parameters


def covered(config: ModelConfig, scheme: Scheme) -> Covers:
    """Which tensors a scheme replaces in this model.

    NVFP4 checkpoints of models with latent, linear or mixed-head attention keep the attention in
    16 bits (nvidia/DeepSeek-R1-0528-NVFP4, Qwen3.6-35B-A3B-NVFP4, Gemma-4-31B-IT-NVFP4).
    """
    heads = {group.kv_heads for group in config.groups}
    unusual = config.latent is not None or config.linear is not None or len(heads) > 1
    return Covers.FEED_FORWARD if scheme is NVFP4 and unusual else scheme.covers


def counted(config: ModelConfig, scheme: Scheme = NONE) -> Parameters | None:
    """Parameters by shapes, corrected by the published total where that can be trusted.

    None when neither is known.
    """
    total = config.total_parameters
    if not config.shapes_complete:
        return _from_total(config, total) if total else None
    shapes = parameters(config)
    if total is None:
        return _with(shapes, VISION_PARAMETERS) if config.multimodal else shapes
    rest = total - shapes.total
    table = config.vocabulary * config.hidden_size
    counted_twice = config.tied_embeddings and abs(rest - table) < MOST_PREDICTOR * table
    draft = config.extra_predictor and 0 < rest < MOST_PREDICTOR * shapes.total
    draft = draft and config.linear is None
    packed = scheme is not NONE and total < LEAST_UNPACKED * shapes.total
    if counted_twice or draft or packed or abs(rest) > MOST_LEFT_OVER * shapes.total:
        return shapes
    return _with(shapes, rest)


def _with(shapes: Parameters, rest: int) -> Parameters:
    fields = {name: getattr(shapes, name) for name in shapes.__dataclass_fields__}
    return Parameters(**{**fields, "left_over": rest})


def _from_total(config: ModelConfig, total: int) -> Parameters:
    """Embeddings by shape, everything else as one divided block."""
    tables = (1 if config.tied_embeddings else 2) * config.vocabulary * config.hidden_size
    mixture = config.experts is not None
    rest = max(0, total - tables)
    return Parameters(
        query_and_output=0,
        key_and_value=0,
        latent_shared=0,
        linear_attention=0,
        feed_forward=0 if mixture else rest,
        experts=rest if mixture else 0,
        embeddings=tables,
        norms=0,
    )


def weight_bytes_per_gpu(
    config: ModelConfig,
    tensor_parallel: int,
    scheme: Scheme = NONE,
    pipeline_parallel: int = 1,
    expert_parallel: int = 1,
    *,
    slices_padded: bool = True,
    attention_parallel: int | None = None,
) -> int:
    """Bytes of weights on the fullest GPU.

    Projections, feed-forward parts, experts and embedding tables are divided by tensor
    parallelism; norms, routers and the shared part of latent attention are repeated; key and value
    projections follow the KV heads. ``expert_parallel`` divides the routed experts further, as data
    parallelism does in vLLM; ``slices_padded`` says whether the engine pads each GPU's slice of
    MXFP4 experts, which early ones did not. With ``attention_parallel`` below ``tensor_parallel``
    attention is divided by it alone, as with data-parallel attention.

    Raises:
        ValueError: when neither shapes nor a total are known.
    """
    count = counted(config, scheme)
    if count is None:
        raise ValueError(f"{config.repository}: neither shapes nor total_parameters are known")
    padding = _padding(config, scheme, tensor_parallel, slices_padded=slices_padded)
    attention = attention_parallel or tensor_parallel
    layers = _layer_bytes(
        config, count, (tensor_parallel, attention), scheme, padding / expert_parallel
    )
    tables = math.ceil(count.embeddings / tensor_parallel) * BYTES_PER_PARAMETER[config.dtype]
    if pipeline_parallel == 1:
        return math.ceil(layers + tables)
    share = math.ceil(config.layers / pipeline_parallel) / config.layers
    one_table = tables if config.tied_embeddings else tables / 2
    return math.ceil(layers * share + one_table)


def _layer_bytes(
    config: ModelConfig,
    count: Parameters,
    divided_by: tuple[int, int],
    scheme: Scheme,
    expert_share: float,
) -> float:
    """Bytes of all layers on one GPU; ``divided_by`` is for the whole layer and for attention."""
    tensor_parallel, attention_parallel = divided_by
    plain = float(BYTES_PER_PARAMETER[config.dtype])
    covers = covered(config, scheme)
    small = scheme.bytes_per_parameter
    attention = small if covers is Covers.LINEAR else plain
    dense = small if covers in (Covers.LINEAR, Covers.FEED_FORWARD) else plain
    expert = small if covers is not Covers.NOTHING else plain
    if config.four_bit_experts:
        expert = MXFP4.bytes_per_parameter
    heads = kv_heads_per_gpu(config, attention_parallel) / config.kv_heads
    state = plain if covers is Covers.LINEAR and small < 1 else attention
    heads_own = attention * count.query_and_output + state * count.linear_attention
    divided = dense * count.feed_forward + _left_over(count, plain, expert)
    divided += expert * count.experts * expert_share
    repeated = plain * count.norms + attention * count.latent_shared
    split = divided / tensor_parallel + heads_own / attention_parallel
    return split + attention * count.key_and_value * heads + repeated


def _left_over(count: Parameters, plain: float, expert: float) -> float:
    """What the shapes miss is 16 bits wide (vision); what they count too much is of the bulk."""
    return count.left_over * (plain if count.left_over > 0 else expert)


def _padding(
    config: ModelConfig, scheme: Scheme, tensor_parallel: int, *, slices_padded: bool
) -> float:
    """How many times its size an expert takes once padded to whole tiles."""
    if scheme.covers is not Covers.EXPERTS or config.experts is None:
        return 1.0
    inner = config.experts.intermediate_size / tensor_parallel
    if inner == 0:
        return 1.0
    wide = math.ceil(config.hidden_size / MXFP4_HIDDEN_MULTIPLE) * MXFP4_HIDDEN_MULTIPLE
    if not slices_padded:
        return wide / config.hidden_size
    deep = math.ceil(inner / MXFP4_SLICE_MULTIPLE) * MXFP4_SLICE_MULTIPLE
    return wide / config.hidden_size * deep / inner


def loaded_beside_weights(
    config: ModelConfig, tensor_parallel: int, scheme: Scheme = NONE, pipeline_parallel: int = 1
) -> float:
    """Bytes that PyTorch engines hold beside the weights themselves once a model is loaded.

    The rope table (positions x rotary width x 2 bytes, longer where rope is scaled linearly), the
    padding of embedding tables, the absorbed projections of latent attention, and what the CUDA
    allocator rounds up: blocks of 10 MiB and more are whole multiples of 2 MiB unless more than
    1 MiB would be left (PyTorch ``CUDACachingAllocator``). With these, 16-bit weights of public
    vLLM logs agree to about 0.1 %.
    """
    width = BYTES_PER_PARAMETER[config.dtype]
    rotary = config.latent.rope_head_dim if config.latent else config.head_dim
    positions = (config.max_position_embeddings or 0) * config.rope_scaling
    rope = positions * rotary * width
    padded = math.ceil(config.vocabulary / VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    tables = (padded - config.vocabulary) * config.hidden_size * width / tensor_parallel
    layers = math.ceil(config.layers / pipeline_parallel)
    rounding = layers * _rounding(config, tensor_parallel, scheme)
    return rope + tables + rounding + layers * _absorbed(config) * width / tensor_parallel


def _absorbed(config: ModelConfig) -> int:
    latent = config.latent
    if latent is None:
        return 0
    heads = latent.nope_head_dim + latent.v_head_dim
    return latent.kv_lora_rank * config.attention_heads * heads


def _rounding(config: ModelConfig, tensor_parallel: int, scheme: Scheme) -> float:
    """Bytes that the allocator adds to the four large tensors of one dense layer."""
    if config.latent or config.linear or config.experts:
        return 0.0
    width = (
        scheme.bytes_per_parameter
        if covered(config, scheme) is Covers.LINEAR
        else BYTES_PER_PARAMETER[config.dtype]
    )
    hidden, heads = config.hidden_size, config.attention_heads // tensor_parallel
    kv_heads = kv_heads_per_gpu(config, tensor_parallel)
    inner = config.intermediate_size // tensor_parallel
    shapes = (
        hidden * (heads + 2 * kv_heads) * config.head_dim,
        hidden * heads * config.head_dim,
        hidden * 2 * inner,
        hidden * inner,
    )
    return sum(_rounded_up(count * width) for count in shapes)


def _rounded_up(size: float) -> float:
    if size < 10 * MIB:
        return 0.0
    spare = -size % (2 * MIB)
    return spare if spare <= MIB else 0.0
