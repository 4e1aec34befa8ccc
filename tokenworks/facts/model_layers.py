"""Which layers of a model keep keys and values, which slide, and which carry a state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tokenworks.facts.model_fields import count, optional_count
from tokenworks.facts.models import AttentionGroup, LinearState

LINEAR = "linear_attention"


def attention(fields: Mapping[str, Any], layers: int) -> tuple[AttentionGroup, ...]:
    """Groups of layers by how they keep keys and values; empty when all are alike and full."""
    full, sliding = _counts(fields, layers)
    if (full, sliding) == (layers, 0):
        return ()
    heads, head = _heads(fields)
    window = optional_count(fields, "sliding_window")
    groups = []
    if full:
        groups.append(
            AttentionGroup(
                layers=full,
                kv_heads=optional_count(fields, "num_global_key_value_heads") or heads,
                head_dim=optional_count(fields, "global_head_dim") or head,
                values=_values(fields),
            )
        )
    if sliding:
        groups.append(
            AttentionGroup(
                layers=sliding,
                kv_heads=optional_count(fields, "swa_num_key_value_heads") or heads,
                head_dim=optional_count(fields, "swa_head_dim") or head,
                window=window,
                values=optional_count(fields, "swa_v_head_dim"),
            )
        )
    return tuple(groups)


def _values(fields: Mapping[str, Any]) -> int | None:
    if fields.get("kv_lora_rank") or fields.get("global_head_dim"):
        return None
    return optional_count(fields, "v_head_dim")


def _heads(fields: Mapping[str, Any]) -> tuple[int, int]:
    attention_heads = count(fields, "num_attention_heads")
    heads = optional_count(fields, "num_key_value_heads") or attention_heads
    head = optional_count(fields, "head_dim")
    return heads, head or count(fields, "hidden_size") // attention_heads


def _counts(fields: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Layers with full and with sliding attention; the rest keeps no keys and values."""
    stated = _stated_types(fields)
    if stated:
        return stated.get("full_attention", 0), stated.get("sliding_attention", 0)
    pattern = fields.get("hybrid_layer_pattern") or fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("*"), 0
    if isinstance(pattern, list):
        return pattern.count(0), pattern.count(1)
    return _regular(fields, layers)


def _stated_types(fields: Mapping[str, Any]) -> dict[str, int]:
    counted = fields.get("layer_types_count")
    if isinstance(counted, dict):
        return {str(kind): optional_count(counted, str(kind)) or 0 for kind in counted}
    listed = fields.get("layer_types")
    if isinstance(listed, list):
        return {str(kind): listed.count(kind) for kind in listed}
    return {}


def _regular(fields: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Layouts that repeat: every n-th layer is full, the others slide or carry a state."""
    linear = fields.get("linear_attention")
    every = linear.get("full_attention_interval") if isinstance(linear, dict) else None
    every = every or fields.get("full_attention_interval")
    if isinstance(every, int) and every > 0:
        return layers // every, 0
    layout = str(fields.get("attention_layout", ""))
    pattern = optional_count(fields, "sliding_window_pattern")
    if "alternating" in layout:
        pattern = 2
    found = re.search(r"(\d+) sliding : 1 full", layout)
    if found:
        pattern = int(found.group(1)) + 1
    if pattern and fields.get("sliding_window"):
        return layers // pattern, layers - layers // pattern
    return layers, 0


def linear(fields: Mapping[str, Any], layers: int, hidden: int) -> LinearState | None:
    """The layers that carry a state: Gated DeltaNet or Mamba-2."""
    nested = fields.get("linear_attention")
    stated = nested if isinstance(nested, dict) else fields
    if "mamba_num_heads" in stated:
        return _mamba(fields, stated, hidden)
    if "linear_num_value_heads" not in stated:
        return None
    full, sliding = _counts(fields, layers)
    key = count(stated, "linear_num_key_heads") * count(stated, "linear_key_head_dim")
    heads, value_head = (
        count(stated, "linear_num_value_heads"),
        count(stated, "linear_value_head_dim"),
    )
    value = heads * value_head
    kernel = count(stated, "linear_conv_kernel_dim")
    return LinearState(
        layers=layers - full - sliding,
        state_elements=heads * count(stated, "linear_key_head_dim") * value_head,
        convolution_elements=(2 * key + value) * (kernel - 1),
        projection_parameters=hidden * (2 * key + 3 * value + 2 * heads),
    )


def _mamba(fields: Mapping[str, Any], stated: Mapping[str, Any], hidden: int) -> LinearState:
    pattern = str(fields.get("hybrid_layer_pattern") or fields.get("hybrid_override_pattern") or "")
    heads, size = count(stated, "mamba_num_heads"), count(stated, "mamba_head_dim")
    state, groups = count(stated, "ssm_state_size"), count(stated, "n_groups")
    inner = heads * size
    channels = inner + 2 * groups * state
    return LinearState(
        layers=pattern.count("M"),
        state_elements=inner * state,
        convolution_elements=channels * (count(stated, "conv_kernel") - 1),
        projection_parameters=hidden * (2 * inner + 2 * groups * state + heads) + inner * hidden,
    )
