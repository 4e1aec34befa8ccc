"""The labels that say what a Kubernetes object is for (the contract with whatever is judged)."""

from __future__ import annotations

from typing import Final

ROLE: Final = "tokenworks.dev/role"
MODEL: Final = "tokenworks.dev/model"
PART_OF: Final = "app.kubernetes.io/part-of"
OURS: Final = "tokenworks"

ENGINE: Final = "engine"
GATEWAY: Final = "gateway"
WEIGHTS: Final = "weights"
