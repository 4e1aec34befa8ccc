"""Model configurations that are shipped: the shapes from which memory is computed.

Each file under ``models/`` holds a repository's ``config.json`` fields in the spelling of Hugging
Face, with the public source they were read from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

ARCHITECTURES = {"LlamaForCausalLM": False, "Qwen3ForCausalLM": True}
"""Architectures whose tensor shapes are known, and whether queries and keys are normalised."""

BYTES_PER_PARAMETER = {"bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one dense decoder with grouped-query attention; counts, not bytes."""

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
    max_position_embeddings: int
    source: str

    @property
    def normalises_queries_and_keys(self) -> bool:
        """Whether each layer carries a norm over the head dimension for queries and for keys."""
        return ARCHITECTURES[self.architecture]


@cache
def models() -> dict[str, ModelConfig]:
    """Every shipped model configuration, by repository."""
    folder = resources.files(__package__).joinpath("models")
    documents = (json.loads(entry.read_text("utf-8")) for entry in folder.iterdir())
    configs = (_model(document) for document in documents)
    return {config.repository: config for config in sorted(configs, key=lambda c: c.repository)}


def _model(document: dict[str, object]) -> ModelConfig:
    config = document["config"]
    assert isinstance(config, dict)  # noqa: S101  (a shipped file, checked by the tests)
    return ModelConfig(
        repository=str(document["repository"]),
        architecture=config["architectures"][0],
        layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        attention_heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        vocabulary=config["vocab_size"],
        tied_embeddings=config["tie_word_embeddings"],
        dtype=config["torch_dtype"],
        max_position_embeddings=config["max_position_embeddings"],
        source=str(document["source"]),
    )
