"""Fields of a model's configuration, each read with the refusal that fits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenworks.errors import ConfigError, Problem

LARGEST = 10**14
"""No count in a configuration comes near it: the largest models have some 10**12 parameters."""


def problem(key: str, given: object, reason: str) -> Problem:
    """One refusal about a model's configuration."""
    remedy = "give the model's own config.json"
    return Problem(key=key, given=str(given), reason=reason, remedy=remedy)


def count(fields: Mapping[str, Any], name: str) -> int:
    """A whole number above 0 that must be there."""
    found = optional_count(fields, name)
    if found is None:
        raise ConfigError([problem(name, "nothing", "is given, but the law needs it")])
    return found


def optional_count(fields: Mapping[str, Any], name: str) -> int | None:
    """A whole number above 0, or None where the field is absent, null, or 0 for "none"."""
    given = fields.get(name)
    if given is None or (given == 0 and name.startswith(OPTIONAL_ZERO)):
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise ConfigError([problem(name, repr(given), "is not a whole number")])
    if not 0 < given < LARGEST:
        raise ConfigError([problem(name, given, "is not a sensible count")])
    return given


OPTIONAL_ZERO = (
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "first_k_dense_replace",
    "moe_intermediate_size",
    "num_global_key_value_heads",
    "sliding_window",
    "q_lora_rank",
)
"""Fields in which 0 means that the model has none of it."""


def text(fields: Mapping[str, Any], name: str) -> str | None:
    """A word, or None."""
    given = fields.get(name)
    return given if isinstance(given, str) and given else None
