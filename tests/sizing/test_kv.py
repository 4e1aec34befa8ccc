"""KV cache and states by layout, against figures that engines print."""

from __future__ import annotations

import pytest

from tests.memory_cases import log
from tokenworks.engines.law import Workload
from tokenworks.engines.vllm import padded_share, windows_saved
from tokenworks.facts.cards import find_card
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.quantization import NONE
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.memory import GIB, kv_bytes_per_token, state_bytes
from tokenworks.sizing.memory.kv import sequence_bytes


def shape(name: str) -> ModelConfig:
    return read_document(name, model_shapes()[name])


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "element_bytes", "per_token"),
    [
        # Latent attention is the same on every GPU: SGLang 0.5.9 and TensorRT-LLM 1.3, FP8.
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", 4, 1, 35_136),
        ("deepseek-ai/DeepSeek-R1", 1, 2, 70_272),
        # Four KV heads on eight GPUs: each is held twice.
        ("Qwen/Qwen3-235B-A22B-FP8", 8, 2, 94 * 128 * 2 * 2),
        # Only 10 of 40 layers keep keys and values.
        ("qwen3.6-35b-a3b-nvfp4", 1, 1, 10_240),
        # Six attention layers, two KV heads on four GPUs.
        ("nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-NVFP4", 4, 1, 1_536),
        ("openai/gpt-oss-20b", 1, 2, 49_152),
    ],
)
def test_a_token_takes_what_engines_print(
    model: str, tensor_parallel: int, element_bytes: float, per_token: int
) -> None:
    assert kv_bytes_per_token(shape(model), tensor_parallel, element_bytes) == per_token


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "slots", "gib"),
    [
        # SGLang's "ssm" pools hold one slot more than they serve.
        ("Qwen/Qwen3.5-397B-A17B", 2, 83, 7.29),
        ("cyankiwi/Qwen3.5-35B-A3B-AWQ-4bit", 1, 33, 1.93),
        ("nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-NVFP4", 4, 2212, 24.84),
        ("nvidia/Qwen3.8-27B-NVFP4", 1, 361, 50.77),
    ],
)
def test_states_take_what_sglang_prints(
    model: str, tensor_parallel: int, slots: int, gib: float
) -> None:
    config = shape(model)
    assert config.linear is not None
    convolution = config.linear.layers * config.linear.convolution_elements * 2 / tensor_parallel
    states = state_bytes(config, tensor_parallel) - convolution
    assert slots * states / GIB == pytest.approx(gib, abs=0.01)


def test_vllm_pads_groups_of_layers_to_the_smallest() -> None:
    def share(name: str) -> float:
        work = Workload(
            config=shape(name),
            scheme=NONE,
            card=find_card("NVIDIA H100", 80, None),
            weight_bytes=0,
            kv_cache_bytes=2,
        )
        return padded_share(work)

    assert share("google/gemma-3-27b-it") == 70 / 62
    assert share("google/gemma-3-4b-it") == 35 / 34
    assert share("google/gemma-3-12b-it") == 1
    assert share("Qwen/Qwen3-8B") == 1


def test_sliding_layers_keep_their_window_and_one_pass() -> None:
    config = shape("google/gemma-3-12b-it")
    whole = kv_bytes_per_token(config, 1)

    def taken(tokens: int) -> float:
        return sequence_bytes(
            config, tokens, tensor_parallel=1, kv_cache_bytes=2, kept_beyond_window=8192
        )

    assert taken(4096) == 4096 * whole
    assert taken(131_072) < 131_072 * whole / 3


def test_a_log_of_a_padded_layout_agrees() -> None:
    reported = log("llmd-google-gemma-3-27b-it-tp1pp1dp1--8192")["reported"]
    per_token = kv_bytes_per_token(shape("google/gemma-3-27b-it"), 1) * 70 / 62
    found = reported["kv_cache_gib_per_gpu"] * GIB / reported["kv_cache_tokens"]
    assert per_token == pytest.approx(found, rel=0.001)


def test_an_indexer_caches_its_keys_beside_latent_attention() -> None:
    plain = model_shapes()["deepseek-ai/DeepSeek-R1"]
    sparse = {**plain, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64}
    config = read_document("deepseek-ai/DeepSeek-V3.2", sparse)
    assert config.unknown == ()
    layers = config.layers
    assert kv_bytes_per_token(config, 8, 1) == layers * (512 + 64 + 128 + 4)


def test_sliding_layers_of_another_page_size_are_pooled_since_vllm_0_21() -> None:
    def saved(name: str, *version: int) -> bool:
        work = Workload(
            config=shape(name),
            scheme=NONE,
            card=find_card("NVIDIA H100", 80, None),
            weight_bytes=0,
            kv_cache_bytes=2,
            version=(version[0], version[1], 0),
        )
        return windows_saved(work)

    gemma_3, gemma_4 = "google/gemma-3-27b-it", "nvidia/Gemma-4-31B-IT-NVFP4"
    assert [saved(gemma_3, 0, minor) for minor in (8, 10, 20)] == [False, True, True]
    assert [saved(gemma_4, 0, minor) for minor in (10, 20, 21)] == [False, False, True]
    assert not saved("Qwen/Qwen3-8B", 0, 21)
