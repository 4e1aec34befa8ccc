"""Since which release of an engine a family of models can be served at all.

A start of Gemma 4 whose version nobody wrote down was none of vLLM 0.11: what is not known of a
version is bounded from below by the model. A model is served by the class that its ``config.json``
names, so a release that has no such class serves none of it. Families that use the class of an
older one (DeepSeek-V3.1, Kimi-K2, Granite 3.3) are bounded by that one's row or not at all.
"""

from __future__ import annotations

import re

Release = tuple[int, int, int]

VLLM: tuple[tuple[str, Release], ...] = (
    # DeepseekV4ForCausalLM, NemotronH_Nano_Omni_Reasoning_V3.
    (r"deepseek-v4|nemotron-3.*omni", (0, 20, 0)),
    # Gemma4ForConditionalGeneration; also vllm-project/vllm-metal pull request 250.
    (r"gemma-?4", (0, 19, 0)),
    # Qwen3_5ForConditionalGeneration, which Qwen3.6 and 3.8 name as well (NeMo AutoModel's page of
    # Qwen3.6-35B-A3B; vllm-project/vllm-project.github.io pull request 307).
    (r"qwen-?3\.[5-8]", (0, 17, 0)),
    # GlmMoeDsaForCausalLM.
    (r"glm-?5", (0, 16, 0)),
    # MiMoV2FlashForCausalLM.
    (r"mimo-v2", (0, 14, 0)),
    # MiniMaxM2ForCausalLM, KimiLinearForCausalLM, Qwen3OmniMoeForConditionalGeneration: not in
    # 0.11.0, in 0.12.0.
    (r"minimax-m2|kimi-linear|qwen-?3-omni", (0, 11, 1)),
    # DeepseekV32ForCausalLM, Qwen3VLForConditionalGeneration.
    (r"deepseek-v3\.2|qwen-?3-vl", (0, 11, 0)),
    # Qwen3NextForCausalLM; also EuroEval pull request 1311.
    (r"qwen-?3-next", (0, 10, 2)),
    # GptOssForCausalLM; also snowflakedb/ArcticInference issue 168.
    (r"gpt-oss", (0, 10, 1)),
    # Glm4MoeForCausalLM.
    (r"glm-?4\.[5-7]", (0, 10, 0)),
    # GraniteMoeHybridForCausalLM, MiMoForCausalLM.
    (r"granite-4|mimo", (0, 9, 0)),
    # KimiVLForConditionalGeneration, Qwen2_5OmniModel.
    (r"kimi-vl|qwen2\.5-omni", (0, 8, 5)),
    # Qwen3ForCausalLM, Qwen3MoeForCausalLM, Glm4ForCausalLM.
    (r"qwen-?3(?![\db])|glm-?4.*0414", (0, 8, 4)),
    # Llama4ForConditionalGeneration.
    (r"llama-?4", (0, 8, 3)),
    # Gemma3ForConditionalGeneration; names that carry a month from April 2025 on, and
    # DeepSeek-R1-0528 of May 2025 (jakemanger/whatmodel), are younger than 0.8.0 of March 2025.
    (r"gemma-?3|-(250[4-9]|251[0-2]|2[6-9](0[1-9]|1[0-2]))\b|deepseek-r1-0528", (0, 8, 0)),
    # Qwen2_5_VLForConditionalGeneration.
    (r"qwen2\.5-vl", (0, 7, 2)),
    # vllm-project/vllm issue 11559.
    (r"deepseek-(v3|r1(?!-distill))", (0, 6, 6)),
)
"""Patterns over lower-case names; the first that is found decides. Source, where a row names
classes only: ``vllm/model_executor/models/registry.py`` of the wheels on PyPI from 0.7.1 on; the
release given is the first with the class, the one before it was looked at and lacks it. Read
2026-11-29."""

TENSORRT_LLM: tuple[tuple[str, Release], ...] = (
    # Added by the notes of 1.2, or named by none up to it.
    (
        r"qwen-?3-(next|vl)|qwen-?3\.[5-9]|gemma-?4|deepseek-v(3\.2|4)|glm-?5|nemotron-3",
        (1, 2, 0),
    ),
    (r"gpt-oss", (1, 1, 0)),
    (r"qwen-?3(?![\db])", (0, 20, 0)),
)
"""Source: NVIDIA/TensorRT-LLM ``docs/source/release-notes.md`` at 001eaec, read 2026-11-29."""

SGLANG: tuple[tuple[str, Release], ...] = (
    # DeepseekV4ForCausalLM.
    (r"deepseek-v4", (0, 5, 12)),
    # Gemma4ForConditionalGeneration.
    (r"gemma-?4", (0, 5, 11)),
    # Qwen3_5ForConditionalGeneration, GlmMoeDsaForCausalLM.
    (r"qwen-?3\.[5-8]|glm-?5", (0, 5, 9)),
    # MiMoV2FlashForCausalLM.
    (r"mimo-v2", (0, 5, 7)),
    # MiniMaxM2ForCausalLM.
    (r"minimax-m2", (0, 5, 5)),
    # NemotronHForCausalLM.
    (r"nemotron-(h|3)", (0, 5, 4)),
    # DeepseekV32ForCausalLM, Qwen3VLForConditionalGeneration.
    (r"deepseek-v3\.2|qwen-?3-vl", (0, 5, 3)),
    # Qwen3NextForCausalLM.
    (r"qwen-?3-next", (0, 5, 2)),
    # GptOssForCausalLM: not in 0.4.10.post2, in 0.5.1.
    (r"gpt-oss", (0, 5, 0)),
    # In 0.2.15 there is no class for Qwen3, Gemma 3, Llama 4, DeepSeek-V3, Qwen2-VL or GLM-4.5.
    (r"qwen-?3(?![\db])|qwen2(\.5)?-vl|gemma-?3|llama-?4|glm-?4\.[5-7]", (0, 3, 0)),
    (r"deepseek-(v3|r1(?!-distill))", (0, 3, 0)),
)
"""Source: the classes in ``sglang/srt/models`` of the wheels on PyPI, 0.2.15 (the last of
0.2), 0.4.10.post2 and each from 0.5.1 to 0.5.12; read 2026-11-29."""

TABLES = {"vllm": VLLM, "tensorrt_llm": TENSORRT_LLM, "sglang": SGLANG}


def first_release(engine: str, model: str) -> Release | None:
    """The first release of an engine that may serve a model of this name; None where any may."""
    said = model.lower()
    return next((first for pattern, first in TABLES[engine] if re.search(pattern, said)), None)
