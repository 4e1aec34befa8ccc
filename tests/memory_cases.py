"""Public start-up logs and the models they name, for tests of the memory law."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "cases" / "memory" / "public_logs.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))

H100: dict[str, Any] = {
    "id": "one",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": {"name": "NVIDIA H100 80GB", "memory_gib": 80, "reported_total_gib": 79.19},
    "gpu_count": 1,
    "tensor_parallel": 1,
    "max_model_len": 8192,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "memory_fraction": 0.95,
}
"""One case with nothing left open."""


def log(name: str) -> dict[str, Any]:
    """The recorded case of one name."""
    return next(case for case in CASES if case["id"] == name)
