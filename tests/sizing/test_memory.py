"""Memory from tensor shapes, against figures that others published."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.memory import (
    kv_bytes_per_token,
    kv_heads_per_gpu,
    parameters,
    weight_bytes_per_gpu,
)


def shipped(name: str, architecture: str) -> ModelConfig:
    return read_document(name, {**model_shapes()[name], "architectures": [architecture]})


LLAMA = shipped("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM")
QWEN = shipped("Qwen/Qwen3-32B", "Qwen3ForCausalLM")

configs = st.builds(
    ModelConfig,
    repository=st.just("org/model"),
    architecture=st.just("LlamaForCausalLM"),
    normalises_queries_and_keys=st.booleans(),
    layers=st.integers(1, 128),
    hidden_size=st.sampled_from([1024, 4096, 8192]),
    intermediate_size=st.sampled_from([2816, 14336, 28672]),
    attention_heads=st.sampled_from([16, 32, 64]),
    kv_heads=st.sampled_from([1, 2, 4, 8, 16]),
    head_dim=st.sampled_from([64, 128]),
    vocabulary=st.sampled_from([32000, 128256]),
    tied_embeddings=st.booleans(),
    dtype=st.sampled_from(["bfloat16", "float16"]),
    max_position_embeddings=st.just(8192),
    source=st.just("made up"),
)
splits = st.sampled_from([1, 2, 4, 8])


@pytest.mark.parametrize(
    ("config", "published"),
    [(LLAMA, 8_030_261_248), (QWEN, 32_762_123_264)],
    ids=["Llama-3.1-8B", "Qwen3-32B"],
)
def test_parameters_equal_the_published_count(config: ModelConfig, published: int) -> None:
    assert parameters(config).total == published


@pytest.mark.parametrize(
    ("layers", "kv_heads", "published"),
    [
        # Heads of 128, 16 bit: a 7B with 4 KV heads, a 32B with 8, Llama-3.1-70B.
        (28, 4, 57_344),
        (64, 8, 256 * 1024),
        (80, 8, 327_680),
    ],
)
def test_kv_cache_per_token_equals_published_figures(
    layers: int, kv_heads: int, published: int
) -> None:
    config = dataclasses.replace(LLAMA, layers=layers, kv_heads=kv_heads)
    assert kv_bytes_per_token(config, 1) == published


@given(configs, splits)
def test_splitting_never_loses_weights_and_adds_only_what_is_repeated(
    config: ModelConfig, tensor_parallel: int
) -> None:
    whole = weight_bytes_per_gpu(config, 1)
    split = weight_bytes_per_gpu(config, tensor_parallel) * tensor_parallel
    count = parameters(config)
    repeated = 2 * (tensor_parallel - 1) * (count.norms + count.key_and_value)
    assert whole <= split <= whole + repeated + 2 * tensor_parallel


@given(configs, splits)
def test_every_kv_head_is_held_by_some_gpu(config: ModelConfig, tensor_parallel: int) -> None:
    held = kv_heads_per_gpu(config, tensor_parallel) * tensor_parallel
    assert held >= config.kv_heads
    assert kv_heads_per_gpu(config, tensor_parallel) >= 1
