"""A model's own configuration files, from which its shape is read instead of the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworks.environment.json_file import refused
from tokenworks.errors import ConfigError
from tokenworks.facts.model_reading import read_document, read_models
from tokenworks.facts.models import ModelConfig

TOWERS = ("vision_config", "audio_config")
"""Parts of a model beside its decoder, whose weights no shape here counts."""


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """What a model's own files say: the record as it was read, and the shape it states."""

    named: str
    record: Mapping[str, Any]
    config: ModelConfig


def read_model_files(path: Path, *, named: str, repository: str) -> ModelFiles:
    """Read a ``config.json``, or the folder of one with ``model.safetensors.index.json`` beside it.

    Raises:
        ConfigError: missing, unreadable, not of one model, or with a field that is missing, absurd
            or not understood, which is named.
    """
    if not path.exists():
        raise refused("does not exist", "copy config.json from the model's repository")
    record = _one_record(path)
    record["source"] = named
    try:
        config = read_document(repository, record)
    except ConfigError as error:
        (first, *_) = error.problems
        given = "" if first.given is None else f" {first.given}"
        raise _not_understood(f"{first.key}{given} {first.reason}") from error
    if config.unknown:
        raise _not_understood(config.unknown[0])
    tower = next((name for name in TOWERS if record.get(name)), None)
    if tower is not None and config.total_parameters is None:
        raise _not_understood(f"{tower}, whose weights only total_parameters of an index tells")
    return ModelFiles(named=named, record=record, config=config)


def _one_record(path: Path) -> dict[str, Any]:
    try:
        found = read_models(path)
    except ConfigError as error:
        raise refused(error.problems[0].reason, "give a model's own config.json") from error
    records = list(found.values())
    if len(records) != 1 or not isinstance(records[0], dict):
        raise refused("is not the configuration of one model", "give a model's own config.json")
    return dict(records[0])


def _not_understood(what: str) -> ConfigError:
    return refused(f"is not understood: {what}", "correct it there, or leave weights.config out")
