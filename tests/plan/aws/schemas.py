"""Documents held against the JSON Schemas in ``tests/cases/aws``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]


def problems(document: Any, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with a document, each with its place."""
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(document)
    ]
