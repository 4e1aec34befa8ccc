"""KV cache per token and state per sequence on one GPU, by how each layer keeps them."""

from __future__ import annotations

import math

from tokenworks.facts.models import BYTES_PER_PARAMETER, AttentionGroup, Latent, ModelConfig
from tokenworks.facts.quantization import KV_BYTES

STATE_BYTES = 4
"""Linear-attention and Mamba-2 states are kept in 32 bits (``mamba_ssm_dtype``); SGLang's logged
pools agree with it to rounding on five of five logs."""


def kv_heads_per_gpu(config: ModelConfig, tensor_parallel: int) -> int:
    """KV heads that one GPU holds; with fewer heads than GPUs each head is held more than once."""
    return _held(config.kv_heads, tensor_parallel)


def _held(heads: int, tensor_parallel: int) -> int:
    return max(1, math.ceil(heads / tensor_parallel))


def element_bytes(config: ModelConfig, kv_cache_dtype: str | None) -> float:
    """Bytes of one cached element: as asked, else as the checkpoint says, else as it computes."""
    asked = kv_cache_dtype if kv_cache_dtype not in (None, "auto") else config.kv_cache_dtype
    return KV_BYTES[asked] if asked is not None else BYTES_PER_PARAMETER[config.dtype]


def group_bytes_per_token(
    group: AttentionGroup, tensor_parallel: int, kv_cache_bytes: float
) -> float:
    """Bytes that one token takes in all layers of one group on one GPU."""
    return group.layers * _held(group.kv_heads, tensor_parallel) * group.row * kv_cache_bytes


def latent_row_bytes(latent: Latent, kv_cache_bytes: float) -> float:
    """Bytes of one token in one layer of latent attention: the same on every GPU.

    An indexer's keys are FP8 with four bytes of scale for 128 of them, whatever the cache is (vLLM
    ``DeepseekV32IndexerCache``).
    """
    index = latent.index_head_dim
    row = latent.kv_lora_rank + latent.rope_head_dim
    return row * kv_cache_bytes + index + index // 128 * 4


def kv_bytes_per_token(
    config: ModelConfig, tensor_parallel: int, kv_cache_bytes: float | None = None
) -> int:
    """Bytes of KV cache that one token takes on one GPU, were every attention layer full.

    Latent attention is not divided by tensor parallelism. ``kv_cache_bytes`` is bytes per element,
    left out as wide as the model computes.
    """
    width = BYTES_PER_PARAMETER[config.dtype] if kv_cache_bytes is None else kv_cache_bytes
    if config.latent is not None:
        return math.ceil(config.layers * latent_row_bytes(config.latent, width))
    each = (group_bytes_per_token(group, tensor_parallel, width) for group in config.groups)
    return math.ceil(sum(each))


def sequence_bytes(
    config: ModelConfig,
    tokens: int,
    *,
    tensor_parallel: int,
    kv_cache_bytes: float,
    kept_beyond_window: int,
) -> float:
    """Bytes that one sequence of ``tokens`` takes on one GPU, sliding layers keeping less.

    A sliding layer keeps its window and ``kept_beyond_window`` tokens: those of one forward pass.
    """
    if config.latent is not None:
        return tokens * config.layers * latent_row_bytes(config.latent, kv_cache_bytes)
    total = 0.0
    for group in config.groups:
        kept = tokens if group.window is None else min(tokens, group.window + kept_beyond_window)
        total += kept * group_bytes_per_token(group, tensor_parallel, kv_cache_bytes)
    return total


def state_bytes(config: ModelConfig, tensor_parallel: int) -> float:
    """Bytes of state that one sequence takes on one GPU in all layers that carry one."""
    if config.linear is None:
        return 0.0
    width = BYTES_PER_PARAMETER[config.dtype]
    layer = config.linear.state_elements * STATE_BYTES + config.linear.convolution_elements * width
    return config.linear.layers * layer / tensor_parallel
