"""Since which release of an engine a family of models can be served at all.

A start of Gemma 4 whose version nobody wrote down was none of vLLM 0.11: what is not known of a
version is bounded from below by the model.
"""

from __future__ import annotations

import re

Release = tuple[int, int, int]

VLLM = (
    # v0.20.x notes: DeepSeek V4 (read 2026-11-29).
    (r"deepseek-v4", (0, 20, 0)),
    # v0.19.0 notes: Gemma 4; vllm-project/vllm-metal pull request 250.
    (r"gemma-?4|qwen-?3\.[68]", (0, 19, 0)),
    # runpod-workers/worker-vllm issue 279: 0.16 refuses Qwen3.5, 0.17 serves it.
    (r"qwen-?3\.5", (0, 17, 0)),
    # EuroEval pull request 1311.
    (r"qwen3-next", (0, 10, 2)),
    # OpenPipe/ART issue 490.
    (r"gpt-oss", (0, 10, 1)),
    # modelscope/evalscope pull request 530 asks for 0.8.5, and vLLM's notes begin with 0.8.4.
    (r"qwen-?3(?![\db])", (0, 8, 4)),
    # Published after vLLM 0.7.
    (r"qwen2\.5-(vl|omni)|gemma-?3|llama-?4|glm-?[45]|deepseek-(v3\.|r1-0528)|kimi", (0, 8, 0)),
    (r"minimax|mimo|granite-(3\.3|4|vision-3\.3)|magistral|devstral", (0, 8, 0)),
    (r"mistral-small-[34]|nemotron-3", (0, 8, 0)),
    # vllm-project/vllm issue 11559.
    (r"deepseek-(v3|r1(?!-distill))", (0, 6, 6)),
)
"""Patterns over lower-case names; the first that is found decides."""

TENSORRT_LLM = (
    # Published after 1.0 had made PyTorch the only default backend.
    (
        r"gpt-oss|qwen-?3-next|qwen-?3\.[5-9]|gemma-?4|deepseek-v(3\.[12]|4)|glm-?5|kimi-k2",
        (1, 0, 0),
    ),
)

SGLANG = (
    # Published after SGLang 0.5 (August 2025).
    (r"qwen-?3-next|qwen-?3\.[5-9]|gemma-?4|deepseek-v(3\.2|4)|glm-?5|nemotron-3|mimo", (0, 5, 0)),
    (
        r"qwen-?[23](?![\db])|gemma-?[23]|llama-?(3\.[1-3]|4)|deepseek-(v[23]|r1)|gpt-oss|glm-?4",
        (0, 3, 0),
    ),
)

TABLES = {"vllm": VLLM, "tensorrt_llm": TENSORRT_LLM, "sglang": SGLANG}


def first_release(engine: str, model: str) -> Release | None:
    """The first release of an engine that may serve a model of this name; None where any may."""
    said = model.lower()
    return next((first for pattern, first in TABLES[engine] if re.search(pattern, said)), None)
