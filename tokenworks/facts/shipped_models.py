"""Models that are known without asking: shapes from public sources, each with its source.

``model_shapes.json`` holds what is publicly known of each, often incomplete. Environments name
them by repository; a file or directory of the user's own is read by ``model_reading``, as they are.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def model_shapes() -> dict[str, dict[str, Any]]:
    """What is known of every shipped model, by name, as it was read; see ``model_reading``."""
    text = resources.files(__package__).joinpath("model_shapes.json").read_text("utf-8")
    known = json.loads(text)
    assert isinstance(known, dict)  # noqa: S101  (a shipped file, checked by the tests)
    return known
