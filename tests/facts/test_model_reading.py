"""Models from a user's own config.json: a file, a folder, or many by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenworks.errors import ConfigError
from tokenworks.facts.model_reading import read_document, read_models
from tokenworks.sizing.memory import parameters

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
}


def test_a_folder_with_config_and_index_is_one_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    index = {"metadata": {"total_parameters": 8_030_261_248}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (name, record), *others = read_models(folder).items()
    assert (name, others) == ("my-llama", [])
    config = read_document(name, record)
    assert config.head_dim == 128
    assert config.total_parameters == parameters(config).total


def test_one_config_file_is_named_after_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert list(read_models(tmp_path / "config.json")) == [tmp_path.name]


def test_the_text_part_of_a_multimodal_model_decides() -> None:
    nested = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": CONFIG}
    config = read_document("org/model", {**nested, "vision_config": {}})
    assert config.layers == 32
    assert config.multimodal


def test_layers_are_taken_as_they_are_listed() -> None:
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"] * 8
    config = read_document("m", {**CONFIG, "layer_types": kinds, "sliding_window": 512})
    assert [(g.layers, g.window) for g in config.groups] == [(8, None), (24, 512)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": 0}, "hidden_size: 0 is not a sensible count"),
        ({"num_hidden_layers": -3}, "num_hidden_layers: -3 is not a sensible count"),
        ({"vocab_size": None}, "vocab_size: nothing is given"),
        ({"num_attention_heads": "32"}, "num_attention_heads: '32' is not a whole number"),
        ({"num_key_value_heads": 5}, "num_key_value_heads: 5 does not divide the 32"),
        (
            {"num_attention_heads": 24, "num_key_value_heads": 24},
            "hidden_size: 4096 is not divided",
        ),
        ({"torch_dtype": "float7"}, "torch_dtype: float7 is a data type whose size is unknown"),
    ],
)
def test_a_field_that_is_missing_or_absurd_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_document("org/model", {**CONFIG, **change})
    assert str(refused.value).startswith(said)


def test_what_is_not_understood_is_named_with_its_field() -> None:
    assert "compress_ratios" in read_document("m", {**CONFIG, "compress_ratios": [4]}).unknown[0]
    hybrid = read_document("m", {**CONFIG, "architectures": ["GraniteMoeHybridForCausalLM"]})
    assert "state" in hybrid.unknown[0]


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 3}'])
def test_a_file_that_holds_no_models_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    with pytest.raises(ConfigError):
        read_models(file)
