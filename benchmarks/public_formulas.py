"""Two public ways to size a model, for comparison; nothing of the project uses them.

``weights_and_kv`` is the formula of most calculators: parameters x bytes / GPUs, catalogue memory,
KV cache = 2 x layers x KV heads x head size x bytes, nothing else taken. ``aiconfigurator`` adds
the constants of ai-dynamo/aiconfigurator 0.12.0 (``sdk/memory.py`` at 095f58a): activations 2 x
tokens x heads x head size x coefficient, NCCL by GPUs, 3.5 GiB of other memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenworks.engines.memory_cases import SizedCase
from tokenworks.errors import ConfigError
from tokenworks.facts.cards import find_card
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig

GIB = 2**30
CATALOGUE_GIB = {"h100": 80, "a100-80gb": 80, "h200": 141, "b200": 180, "l40s": 46068 / 1024}
COEFFICIENTS: dict[bool, dict[int, float]] = {
    False: {1: 11, 2: 6.5, 4: 5, 8: 5},
    True: {1: 22, 2: 13, 4: 10, 8: 10},
}
NCCL_MIB = {1: 0, 2: 342, 4: 392, 8: 392}
OTHER_BYTES = 3.5 * GIB
DEFAULT_LENGTH = 8192


@dataclass(frozen=True)
class _Sizes:
    config: ModelConfig
    tensor: int
    total: float
    weights: float
    token: float
    length: int


def _sizes(case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> _Sizes:
    name = str(case.get("model"))
    config = read_document(name, models.get(name, {}))
    gpu = case.get("gpu") or {}
    card = find_card(gpu.get("name"), gpu.get("memory_gib"), None)
    tensor = case.get("tensor_parallel") or 1
    said = f"{case.get('quantization') or ''} {name}".lower()
    width = 0.5 if re.search(r"4", str(case.get("quantization"))) or "awq" in said else 2.0
    width = 1.0 if re.search(r"fp8|int8|w8a8", said) else width
    cached = 1.0 if "fp8" in str(case.get("kv_cache_dtype")) else 2.0
    return _Sizes(
        config=config,
        tensor=tensor,
        total=CATALOGUE_GIB.get(card.name, card.catalogue_gb) * GIB,
        weights=(config.total_parameters or 0) * width / tensor,
        token=2 * config.layers * config.kv_heads * config.head_dim * cached / tensor,
        length=case.get("max_model_len") or DEFAULT_LENGTH,
    )


def _answer(case: Mapping[str, Any], sizes: _Sizes, cache: float) -> SizedCase:
    verdict = "fits" if cache >= sizes.token * sizes.length else "kv_too_small"
    if sizes.weights > sizes.total:
        verdict = "does_not_fit"
    return SizedCase(
        id=str(case.get("id")),
        weights_gib_per_gpu=sizes.weights / GIB,
        kv_cache_gib_per_gpu=cache / GIB,
        kv_cache_tokens=max(0, int(cache / sizes.token)),
        verdict=verdict,
    )


def weights_and_kv(case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> SizedCase:
    """What the plain formula says."""
    try:
        sizes = _sizes(case, models)
    except ConfigError as error:
        return SizedCase(id=str(case.get("id")), error=str(error))
    fraction = case.get("memory_fraction") or 0.9
    return _answer(case, sizes, sizes.total * fraction - sizes.weights)


def aiconfigurator(case: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> SizedCase:
    """What the same formula says with that tool's allowances."""
    try:
        sizes = _sizes(case, models)
    except ConfigError as error:
        return SizedCase(id=str(case.get("id")), error=str(error))
    size = max(n for n in NCCL_MIB if n <= sizes.tensor)
    coefficient = COEFFICIENTS[sizes.config.experts is not None][size]
    tokens = case.get("max_num_batched_tokens") or 8192
    width = sizes.config.attention_heads * sizes.config.head_dim
    other = 2 * tokens * width * coefficient + NCCL_MIB[size] * 2**20 + OTHER_BYTES
    fraction = case.get("memory_fraction") or 0.9
    used = sizes.weights + other
    if case.get("engine") == "tensorrt_llm":
        return _answer(case, sizes, (sizes.total - used) * fraction)
    return _answer(case, sizes, sizes.total * fraction - used)
