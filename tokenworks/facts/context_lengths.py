"""Context lengths that models were trained for, where a record of their shape leaves them out.

Source: ``max_position_embeddings`` in the ``config.json`` of each family on Hugging Face.
"""

from __future__ import annotations

import re

CONTEXT_LENGTHS = (
    (r"7b-instruct-1m", 1_010_000),
    (r"llama-?3\.[123]", 131_072),
    (r"llama-3-", 8_192),
    (r"codellama", 16_384),
    (r"llama-2", 4_096),
    (r"vicuna", 2_048),
    (
        r"deepseek-coder-v2|deepseek-v2|deepseek-v3|deepseek-r1$|deepseek-r1[ -](gguf|0528-nvfp4)",
        163_840,
    ),
    (r"r1-distill-qwen", 131_072),
    (r"deepseek-coder-", 16_384),
    (r"qwq|kimi-dev|kimi-vl|kimi-k2", 131_072),
    (r"qwen2\.5|qwen2-|qwen1\.5|qwen2", 32_768),
    (r"qwen3-next", 262_144),
    (r"qwen3", 40_960),
    (r"gemma-?3", 131_072),
    (r"gemma", 8_192),
    (r"granite-(3|vision-3)", 131_072),
    (r"mistral-small-3", 131_072),
    (r"mistral-7b|mixtral", 32_768),
    (r"phi-4", 16_384),
    (r"phi-2", 2_048),
    (r"gpt-oss", 131_072),
    (r"glm-4\.[67]", 202_752),
)
"""Patterns over lower-case names, the first that is found decides."""


def trained_context(name: str) -> int | None:
    """Tokens that a model of this name was trained for, or None where the name says nothing."""
    said = name.lower()
    return next((n for pattern, n in CONTEXT_LENGTHS if re.search(pattern, said)), None)
