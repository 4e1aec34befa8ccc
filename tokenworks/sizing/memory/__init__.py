"""GPU memory of a model: weights and KV cache per GPU, from tensor shapes."""

from tokenworks.sizing.memory.kv import (
    kv_bytes_per_token,
    kv_heads_per_gpu,
    state_bytes,
)
from tokenworks.sizing.memory.weights import (
    GIB,
    Parameters,
    parameters,
    weight_bytes_per_gpu,
)

__all__ = [
    "GIB",
    "Parameters",
    "kv_bytes_per_token",
    "kv_heads_per_gpu",
    "parameters",
    "state_bytes",
    "weight_bytes_per_gpu",
]
