"""What a GPU could do at best: bytes and operations per second, for a roofline estimate.

Source: ``aiconfigurator_core/systems/*.yaml`` of NVIDIA's PyPI wheel aiconfigurator_core 0.12.0,
read 2026-11-29; dense 16-bit tensor operations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuRates:
    """Peak rates of one GPU: memory bytes per second, 16-bit operations per second."""

    bytes_per_second: float
    operations_per_second: float


GPU_RATES = {
    "l4": GpuRates(bytes_per_second=300e9, operations_per_second=121e12),
    "l40s": GpuRates(bytes_per_second=864e9, operations_per_second=362.05e12),
    "h100": GpuRates(bytes_per_second=3350e9, operations_per_second=989e12),
    "h200": GpuRates(bytes_per_second=4800e9, operations_per_second=989e12),
    "b200": GpuRates(bytes_per_second=7700e9, operations_per_second=2250e12),
}
"""By the name of the GPU in ``facts/gpus.py``; a GPU without a row gets no estimate."""

ATTAINED_LOW = 0.4
"""Least share of the peak that is expected: the fixed utilisation against which aiconfigurator's
tests compare their estimates for mixtures of experts (0.6 for prefill attention). It is no bound.
From time per output token of one sequence (tenstorrent/tt-inference-server issues): 0.60 for
Qwen3-14B on an A100 (340), about 0.4 for Qwen3-1.7B, where launches and not memory take the time
(340), 0.23 for Llama-3.2-90B-Vision on four H100 (379)."""

ATTAINED_HIGH = 0.8
"""Largest share that is expected: ``mem_bw_empirical_scaling_factor`` of the same files."""
