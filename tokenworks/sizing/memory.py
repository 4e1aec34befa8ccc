"""GPU memory of a model: weights and KV cache per GPU, from tensor shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tokenworks.facts.models import BYTES_PER_PARAMETER, ModelConfig

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameter counts of one model, apart by whether tensor parallelism divides them."""

    query_and_output: int
    key_and_value: int
    feed_forward: int
    embeddings: int
    norms: int

    @property
    def total(self) -> int:
        """All parameters."""
        divided = self.query_and_output + self.key_and_value + self.feed_forward + self.embeddings
        return divided + self.norms


def parameters(config: ModelConfig) -> Parameters:
    """Count the parameters of a dense decoder from the shapes of its tensors."""
    hidden, head = config.hidden_size, config.head_dim
    norm = 2 * hidden + (2 * head if config.normalises_queries_and_keys else 0)
    tables = 1 if config.tied_embeddings else 2
    return Parameters(
        query_and_output=config.layers * 2 * hidden * config.attention_heads * head,
        key_and_value=config.layers * 2 * hidden * config.kv_heads * head,
        feed_forward=config.layers * 3 * hidden * config.intermediate_size,
        embeddings=tables * config.vocabulary * hidden,
        norms=config.layers * norm + hidden,
    )


def kv_heads_per_gpu(config: ModelConfig, tensor_parallel: int) -> int:
    """KV heads that one GPU holds; with fewer heads than GPUs each head is held more than once."""
    return max(1, math.ceil(config.kv_heads / tensor_parallel))


def weight_bytes_per_gpu(config: ModelConfig, tensor_parallel: int) -> int:
    """Bytes of weights on one GPU of a tensor-parallel group.

    Projections, feed-forward and embedding tables are divided; norms are repeated; key and value
    projections follow the KV heads.
    """
    count = parameters(config)
    kv_share = count.key_and_value * kv_heads_per_gpu(config, tensor_parallel) / config.kv_heads
    divided = count.query_and_output + count.feed_forward + count.embeddings
    per_gpu = math.ceil(divided / tensor_parallel) + math.ceil(kv_share) + count.norms
    return per_gpu * BYTES_PER_PARAMETER[config.dtype]


def kv_bytes_per_token(config: ModelConfig, tensor_parallel: int) -> int:
    """Bytes of KV cache that one token takes on one GPU: keys and values of every layer."""
    heads = kv_heads_per_gpu(config, tensor_parallel)
    return 2 * config.layers * heads * config.head_dim * BYTES_PER_PARAMETER[config.dtype]
