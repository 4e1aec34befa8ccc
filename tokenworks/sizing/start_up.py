"""How long a replica takes to start, and the probes that leave it that time."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIB = 2**20

SHA256_MIB_PER_SECOND = 900
"""One core hashing with OpenSSL and the SHA instructions of an AMD EPYC: 943 MiB/s, measured with
Python 3.11 on 2026-11-29, rounded down."""

WARM_UP_SECONDS = 180
"""Allowance for kernels, CUDA graphs and the profiling forward of TensorRT-LLM. Llama-4-Scout on
four GPUs took about 600 s in all, weights included (llm-d-benchmark issue 83)."""

SAFETY = 2
"""A start-up budget is twice the estimate: a slow start costs minutes, a killed one costs all."""

IMAGE_PULL_SECONDS = 900
"""Allowance for pulling the engine image: about 18 GB compressed (triton-inference-server/server
issue 7335) at 20 MB/s."""


@dataclass(frozen=True, kw_only=True)
class StartUp:
    """Seconds until a replica serves: checking weights, loading them, warming up."""

    check_seconds: int
    load_seconds: int
    warm_up_seconds: int

    @property
    def budget_seconds(self) -> int:
        """What the engine container may take before it counts as broken."""
        return SAFETY * (self.load_seconds + self.warm_up_seconds)

    @property
    def progress_deadline_seconds(self) -> int:
        """What a whole replica may take before a rollout counts as stuck."""
        return IMAGE_PULL_SECONDS + SAFETY * self.check_seconds + self.budget_seconds


def start_up(weight_bytes: int, read_mib_per_second: int) -> StartUp:
    """Times that follow from the size of the weights and the rate at which they are read."""
    mib = weight_bytes / MIB
    return StartUp(
        check_seconds=math.ceil(mib / min(read_mib_per_second, SHA256_MIB_PER_SECOND)),
        load_seconds=math.ceil(mib / read_mib_per_second),
        warm_up_seconds=WARM_UP_SECONDS,
    )
