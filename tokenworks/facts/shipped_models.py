"""Models that are known without asking: shapes from public sources, each with its source.

``models/`` holds ``config.json`` files from which environments are planned, ``model_shapes.json``
what is publicly known of many more, often incomplete. A file or directory of the user's own is
read by ``model_reading``, as these are.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig


@cache
def models() -> dict[str, ModelConfig]:
    """Every shipped ``config.json``, by repository: the models that environments may name."""
    folder = resources.files(__package__).joinpath("models")
    documents = [json.loads(entry.read_text("utf-8")) for entry in folder.iterdir()]
    configs = (
        read_document(
            str(document["repository"]),
            {
                **document["config"],
                "source": document["source"],
                "total_parameters": document["total_parameters"],
            },
        )
        for document in documents
    )
    return {config.repository: config for config in sorted(configs, key=lambda c: c.repository)}


@cache
def model_shapes() -> dict[str, dict[str, Any]]:
    """What is known of every shipped model, by name, as it was read; see ``model_reading``."""
    text = resources.files(__package__).joinpath("model_shapes.json").read_text("utf-8")
    known = json.loads(text)
    assert isinstance(known, dict)  # noqa: S101  (a shipped file, checked by the tests)
    return known
