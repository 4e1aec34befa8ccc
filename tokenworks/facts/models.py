"""What a model is made of: the shapes from which memory is computed."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_PARAMETER = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of one unquantised parameter, by the ``torch_dtype`` of a checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The mixture of a model: routed experts in ``layers`` of its layers."""

    count: int
    layers: int
    intermediate_size: int
    per_token: int = 1
    shared_intermediate_size: int = 0


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Multi-head latent attention: what is cached is ``kv_lora_rank + rope_head_dim`` per token.

    ``index_head_dim`` is of the keys that an indexer caches beside it (sparse attention), 0 for
    none.
    """

    kv_lora_rank: int
    q_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int
    v_head_dim: int
    index_head_dim: int = 0


@dataclass(frozen=True, kw_only=True)
class AttentionGroup:
    """Layers that keep keys and values alike; ``window`` is None where all tokens are kept.

    ``values`` is the head dimension of the values, where it differs from that of the keys.
    """

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    values: int | None = None

    @property
    def row(self) -> int:
        """Elements that one token takes for one KV head in one layer: a key and a value."""
        return self.head_dim + (self.values or self.head_dim)


@dataclass(frozen=True, kw_only=True)
class LinearState:
    """Layers that keep one state per sequence instead of a row per token; elements per layer."""

    layers: int
    state_elements: int
    convolution_elements: int
    projection_parameters: int


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one decoder; counts, not bytes.

    ``intermediate_size`` is 0 and ``max_position_embeddings`` None where they are not known.
    ``unknown`` names what in a configuration is not understood: with it neither weights nor KV
    cache can be computed from shapes, but a token takes at most what full attention would.
    ``total_parameters`` is what others counted, vision and
    draft layers included; a packed checkpoint counts two 4-bit weights as one.
    """

    repository: str
    architecture: str
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied_embeddings: bool
    dtype: str
    max_position_embeddings: int | None
    source: str
    normalises_queries_and_keys: bool = False
    biased_queries: bool = False
    gated_attention: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    attention: tuple[AttentionGroup, ...] = ()
    linear: LinearState | None = None
    total_parameters: int | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    rope_scaling: float = 1.0
    multimodal: bool = False
    extra_predictor: bool = False
    four_bit_experts: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[AttentionGroup, ...]:
        """Layers by how they keep keys and values; all alike unless the model says otherwise."""
        plain = AttentionGroup(layers=self.layers, kv_heads=self.kv_heads, head_dim=self.head_dim)
        return self.attention or (plain,)

    @property
    def dense_layers(self) -> int:
        """Layers whose feed-forward part is not a mixture."""
        return self.layers - (self.experts.layers if self.experts else 0)

    @property
    def shapes_complete(self) -> bool:
        """Whether weights can be counted from the shapes of tensors."""
        dense = self.dense_layers == 0 or self.intermediate_size > 0
        expert = self.experts is None or self.experts.intermediate_size > 0
        return dense and expert and not self.unknown
