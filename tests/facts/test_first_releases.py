"""Which release of an engine may have served a model whose version nobody wrote down."""

from __future__ import annotations

import pytest

from tokenworks.facts.first_releases import TABLES, first_release


@pytest.mark.parametrize(
    ("engine", "model", "first"),
    [
        ("vllm", "nvidia/Gemma-4-31B-IT-NVFP4", (0, 19, 0)),
        ("vllm", "google/gemma-3-27b-it", (0, 8, 0)),
        ("vllm", "Qwen/Qwen3.5-35B-A3B", (0, 17, 0)),
        ("vllm", "Qwen/Qwen3-Next-80B-A3B-Instruct", (0, 10, 2)),
        ("vllm", "Qwen/Qwen3-8B", (0, 8, 4)),
        ("vllm", "deepseek-ai/DeepSeek-R1", (0, 6, 6)),
        ("vllm", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", None),
        ("vllm", "meta-llama/Llama-2-7b-hf", None),
        ("vllm", "Qwen/Qwen2.5-VL-7B-Instruct-AWQ", (0, 7, 2)),
        ("vllm", "THUDM/glm-4-9b-chat", None),
        ("vllm", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", (0, 8, 0)),
        ("vllm", "mistralai/Mistral-Small-24B-Instruct-2501", None),
        ("vllm", "deepseek-ai/DeepSeek-V3.1", (0, 6, 6)),
        ("tensorrt_llm", "openai/gpt-oss-120b", (1, 1, 0)),
        ("tensorrt_llm", "google/gemma-7b", None),
        ("sglang", "deepseek-ai/DeepSeek-V4-Flash", (0, 5, 12)),
        ("sglang", "Qwen/Qwen2-72B-Instruct", None),
    ],
)
def test_a_model_says_since_when_it_can_be_served(
    engine: str, model: str, first: tuple[int, int, int] | None
) -> None:
    assert first_release(engine, model) == first


@pytest.mark.parametrize("engine", sorted(TABLES))
def test_newer_families_are_asked_first(engine: str) -> None:
    firsts = [first for _, first in TABLES[engine]]
    assert firsts == sorted(firsts, reverse=True)
