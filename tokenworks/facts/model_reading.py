"""From a model's ``config.json``, or a flat record of the same fields, to a ``ModelConfig``.

Field names are those of Hugging Face. Fields of a nested ``text_config`` win over those beside it.
Further fields are read as public records carry them: ``total_parameters``, ``attention_layout``,
``layer_types_count``, ``linear_attention``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenworks.errors import ConfigError, Problem
from tokenworks.facts import model_layers
from tokenworks.facts.context_lengths import trained_context
from tokenworks.facts.model_fields import count, optional_count, problem, text
from tokenworks.facts.models import BYTES_PER_PARAMETER, Experts, Latent, ModelConfig

NOT_UNDERSTOOD = {
    "compress_ratios": "compressed attention",
    "index_topk": "sparse attention with an indexer",
}
"""Fields that change what a token costs in ways this law does not know."""

QWEN3_5_LINEAR = {
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
"""Alike in the ``config.json`` of Qwen3.5-35B-A3B, Qwen3.5-397B-A17B and Qwen3.6-35B-A3B (PyPI
wheel aiconfigurator_core 0.12.0), whose linear value heads are twice their attention heads."""

LINEAR_ARCHITECTURES = ("qwen3_5", "qwen3_next", "granitemoehybrid", "glm5_next", "nemotron_h")
"""``architecture`` words that mean layers with a state instead of rows."""

DTYPES = {"torch.bfloat16": "bfloat16", "half": "float16", "bf16": "bfloat16", "fp16": "float16"}


def read_models(path: Path) -> dict[str, dict[str, Any]]:
    """Records by model name, from a user's file or directory.

    Takes a ``config.json``, a directory that holds one (a ``model.safetensors.index.json`` beside
    it gives the parameters), or a JSON object of such records by name.

    Raises:
        ConfigError: when the file cannot be read or is none of these.
    """
    if path.is_dir():
        return {path.name: {**_read(path / "config.json"), **_index(path)}}
    document = _read(path)
    if "hidden_size" in document or "text_config" in document:
        name = document.get("_name_or_path") or path.parent.resolve().name
        return {str(name): document}
    if not any(isinstance(record, dict) for record in document.values()):
        raise ConfigError([problem(str(path), "no model", "is in the file")])
    return document


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = f"cannot be read as JSON ({error})"
        raise ConfigError(
            [Problem(key="", file=path, reason=reason, remedy="give a config.json or a directory")]
        ) from error
    if not isinstance(document, dict):
        reason = "is not a JSON object"
        raise ConfigError([Problem(key="", file=path, reason=reason, remedy="give models by name")])
    return document


def _index(folder: Path) -> dict[str, Any]:
    """The parameters that a safetensors index states, which only some do."""
    path = folder / "model.safetensors.index.json"
    if not path.exists():
        return {}
    stated = _read(path).get("metadata", {}).get("total_parameters")
    return {"total_parameters": int(stated)} if stated else {}


def read_document(name: str, document: Mapping[str, Any]) -> ModelConfig:
    """The shape that one record states.

    Raises:
        ConfigError: naming the first field that is missing, absurd or not understood.
    """
    nested = document.get("text_config")
    fields = {**document, **nested} if isinstance(nested, dict) else dict(document)
    fields = _with_family(fields)
    if not fields:
        raise ConfigError([problem(name, "nothing", "states no shape")])
    layers = count(fields, "num_hidden_layers")
    hidden = count(fields, "hidden_size")
    heads = count(fields, "num_attention_heads")
    kv_heads = optional_count(fields, "num_key_value_heads") or heads
    architecture = _architecture(fields)
    plain = ModelConfig(
        repository=name,
        architecture=architecture,
        layers=layers,
        hidden_size=hidden,
        intermediate_size=_intermediate(fields),
        attention_heads=heads,
        kv_heads=_dividing(heads, kv_heads, fields),
        head_dim=optional_count(fields, "head_dim") or _head_dim(hidden, heads, fields),
        vocabulary=count(fields, "vocab_size"),
        tied_embeddings=fields.get("tie_word_embeddings") is True,
        dtype=_dtype(fields),
        max_position_embeddings=_positions(fields) or trained_context(name),
        source=text(fields, "source") or "given by the user",
    )
    return _with_layers(plain, fields)


def _with_layers(plain: ModelConfig, fields: Mapping[str, Any]) -> ModelConfig:
    """The same shape with what its layers and its checkpoint say of themselves."""
    name, architecture, layers = plain.repository, plain.architecture, plain.layers
    return replace(
        plain,
        normalises_queries_and_keys="Qwen3" in architecture,
        biased_queries="Qwen2" in architecture,
        gated_attention=fields.get("attn_output_gate") is True,
        experts=_experts(fields, layers),
        latent=_latent(fields),
        attention=model_layers.attention(fields, layers),
        linear=model_layers.linear(fields, layers, plain.hidden_size),
        total_parameters=optional_count(fields, "total_parameters"),
        quantization=_quantization(fields),
        kv_cache_dtype=_kv_cache_dtype(fields),
        rope_scaling=_rope_scaling(name, fields),
        multimodal=_multimodal(name, fields),
        extra_predictor=_has_predictor(fields),
        four_bit_experts=fields.get("expert_dtype") == "fp4",
        unknown=tuple(_unknown(fields)),
    )


def _with_family(fields: dict[str, Any]) -> dict[str, Any]:
    """The record, and what every model of its family has where the record leaves it out."""
    if text(fields, "architecture") != "qwen3_5" or "linear_attention" in fields:
        return fields
    heads = count(fields, "num_attention_heads")
    return {
        **fields,
        "linear_attention": {**QWEN3_5_LINEAR, "linear_num_value_heads": 2 * heads},
        "attn_output_gate": True,
    }


def _architecture(fields: Mapping[str, Any]) -> str:
    named = fields.get("architectures")
    if isinstance(named, list) and named:
        return str(named[0])
    return text(fields, "architecture") or text(fields, "model_type") or ""


def _dividing(heads: int, kv_heads: int, fields: Mapping[str, Any]) -> int:
    if heads % kv_heads and not _latent(fields):
        reason = f"does not divide the {heads} attention heads"
        raise ConfigError([problem("num_key_value_heads", kv_heads, reason)])
    return kv_heads


def _head_dim(hidden: int, heads: int, fields: Mapping[str, Any]) -> int:
    rope, nope = fields.get("qk_rope_head_dim"), fields.get("qk_nope_head_dim")
    if isinstance(rope, int) and isinstance(nope, int):
        return rope + nope
    if hidden % heads:
        reason = f"is not divided by the {heads} attention heads, and no head_dim is given"
        raise ConfigError([problem("hidden_size", hidden, reason)])
    return hidden // heads


def _intermediate(fields: Mapping[str, Any]) -> int:
    stated = optional_count(fields, "intermediate_size")
    if stated is None and not _expert_count(fields):
        stated = optional_count(fields, "llmfit_moe_intermediate_size_field")
    return stated or 0


def _dtype(fields: Mapping[str, Any]) -> str:
    stated = text(fields, "torch_dtype") or text(fields, "dtype") or "bfloat16"
    dtype = DTYPES.get(stated, stated)
    if dtype not in BYTES_PER_PARAMETER:
        reason = "is a data type whose size is unknown"
        raise ConfigError([problem("torch_dtype", stated, reason)])
    return dtype


def _positions(fields: Mapping[str, Any]) -> int | None:
    stated = optional_count(fields, "max_position_embeddings")
    return stated or optional_count(fields, "context_length")


def _expert_count(fields: Mapping[str, Any]) -> int | None:
    for name in ("num_experts", "n_routed_experts", "num_local_experts"):
        stated = fields.get(name)
        if isinstance(stated, int) and stated > 1:
            return stated
    return None


def _experts(fields: Mapping[str, Any], layers: int) -> Experts | None:
    experts = _expert_count(fields)
    if experts is None:
        return None
    size = optional_count(fields, "moe_intermediate_size")
    size = size or optional_count(fields, "llmfit_moe_intermediate_size_field")
    if size is None and fields.get("num_experts_per_tok"):
        size = optional_count(fields, "intermediate_size")
    shared = optional_count(fields, "shared_expert_intermediate_size")
    if shared is None and size is not None:
        shared = size * (optional_count(fields, "n_shared_experts") or 0)
    if "interleave_moe_layer_step" in fields and shared == 0:
        shared = size  # Llama 4 has one shared expert beside the routed ones
    return Experts(
        count=experts,
        layers=_expert_layers(fields, layers),
        intermediate_size=size or 0,
        per_token=optional_count(fields, "num_experts_per_tok")
        or optional_count(fields, "active_experts")
        or 1,
        shared_intermediate_size=shared or 0,
    )


def _expert_layers(fields: Mapping[str, Any], layers: int) -> int:
    pattern = fields.get("hybrid_layer_pattern") or fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("E")
    step = optional_count(fields, "interleave_moe_layer_step")
    step = step or optional_count(fields, "decoder_sparse_step") or 1
    return (layers - (optional_count(fields, "first_k_dense_replace") or 0)) // step


def _latent(fields: Mapping[str, Any]) -> Latent | None:
    if not fields.get("kv_lora_rank"):
        return None
    return Latent(
        kv_lora_rank=count(fields, "kv_lora_rank"),
        q_lora_rank=optional_count(fields, "q_lora_rank") or 0,
        rope_head_dim=count(fields, "qk_rope_head_dim"),
        nope_head_dim=count(fields, "qk_nope_head_dim"),
        v_head_dim=count(fields, "v_head_dim"),
        index_head_dim=optional_count(fields, "index_head_dim") or 0,
    )


def _quantization(fields: Mapping[str, Any]) -> str | None:
    stated = fields.get("quantization_config")
    if not isinstance(stated, dict):
        return None
    words = (stated.get(key) for key in ("quant_algo", "quant_method", "fmt", "format", "bits"))
    return " ".join(str(word) for word in words if word is not None) or None


def _kv_cache_dtype(fields: Mapping[str, Any]) -> str | None:
    stated = fields.get("quantization_config")
    scheme = stated.get("kv_cache_scheme") if isinstance(stated, dict) else None
    return "fp8" if isinstance(scheme, dict) and scheme.get("num_bits") == 8 else None


def _rope_scaling(name: str, fields: Mapping[str, Any]) -> float:
    """How many times the trained positions the table of a linearly scaled rope is long."""
    stated = fields.get("rope_scaling")
    if isinstance(stated, dict) and stated.get("rope_type", stated.get("type")) == "linear":
        return float(stated.get("factor", 1.0))
    gemma3 = re.search(r"gemma-3-(4|12|27)b", name) and fields.get("attention_layout")
    return 8.0 if gemma3 else 1.0


def _multimodal(name: str, fields: Mapping[str, Any]) -> bool:
    stated = any(key in fields for key in ("vision", "vision_config", "audio_config"))
    said = re.search(r"[-/](vl|omni|vision|llava)|-vl-|vl\d|omni|llava|gemma-[34]", name.lower())
    return stated or bool(said)


def _has_predictor(fields: Mapping[str, Any]) -> bool:
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
    return any(fields.get(name) for name in names)


def _unknown(fields: Mapping[str, Any]) -> list[str]:
    strange = [name for name in NOT_UNDERSTOOD if fields.get(name)]
    if strange == ["index_topk"] and fields.get("kv_lora_rank"):
        strange = []  # an indexer beside latent attention caches keys of a known size
    found = [f"{name} ({NOT_UNDERSTOOD[name]})" for name in strange]
    architecture = _architecture(fields).lower()
    hybrid = next((word for word in LINEAR_ARCHITECTURES if word in architecture), None)
    stated = any(key in fields for key in ("linear_attention", "linear_num_value_heads"))
    if hybrid and not stated:
        found.append(f"architecture {hybrid} (layers with a state whose size is not given)")
    if architecture == "gemma4" and "layer_types_count" not in fields:
        found.append("architecture gemma4 (which layers slide is not given)")
    if "mistral3" in architecture and _expert_count(fields) and not fields.get("kv_lora_rank"):
        found.append("architecture mistral3 (a mixture whose attention is not given)")
    return found
