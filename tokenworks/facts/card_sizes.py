"""Memory that cards are sold with, for those whose physical total no log here shows.

Sources: the makers' product pages (NVIDIA, AMD, Intel), gigabytes as printed there, read
2026-11-29. What CUDA or HIP reports of it lies between 0.90 and 1 of that figure taken as GiB.
"""

from __future__ import annotations

LAPTOPS: tuple[tuple[str, tuple[int, ...], tuple[int, int]], ...] = (
    (r"5090", (24,), (12, 0)),
    (r"5080|5070 ti", (12, 16), (12, 0)),
    (r"5070|5060", (8,), (12, 0)),
    (r"4090", (16,), (8, 9)),
    (r"4080", (12,), (8, 9)),
    (r"40[5-7]0", (8, 6), (8, 9)),
    (r"3080 ti", (16,), (8, 6)),
    (r"3080", (8, 16), (8, 6)),
    (r"30[67]0", (8, 6), (8, 6)),
    (r"20[678]0", (8, 6), (7, 5)),
)
"""The same for names with "laptop" or "mobile" in them, which hold less than the desktop card."""

SOLD_WITH: tuple[tuple[str, tuple[int, ...], tuple[int, int]], ...] = (
    (r"agx thor|jetson thor", (128,), (11, 0)),
    (r"agx orin", (64, 32), (8, 7)),
    (r"orin nx", (16, 8), (8, 7)),
    (r"orin nano", (8, 4), (8, 7)),
    (r"agx xavier", (32, 64), (7, 2)),
    (r"\bb100\b", (192,), (10, 0)),
    (r"\ba30\b", (24,), (8, 0)),
    (r"\ba16\b", (16,), (8, 6)),
    (r"\ba2\b", (16,), (8, 6)),
    (r"\bl2\b", (24,), (8, 9)),
    (r"p100", (16, 12), (6, 0)),
    (r"p40\b", (24,), (6, 1)),
    (r"\bp4\b", (8,), (6, 1)),
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
    (r"5070\b", (12,), (12, 0)),
    (r"5060 ti", (16, 8), (12, 0)),
    (r"5060|5050", (8,), (12, 0)),
    (r"4070 ti super", (16,), (8, 9)),
    (r"4070", (12,), (8, 9)),
    (r"4060 ti", (16, 8), (8, 9)),
    (r"4060", (8,), (8, 9)),
    (r"3070|3060 ti", (8,), (8, 6)),
    (r"2080|2070", (8,), (7, 5)),
    (r"2060", (6, 12), (7, 5)),
    (r"1080 ti", (11,), (6, 1)),
    (r"mi355x?|mi350x?", (288,), (9, 5)),
    (r"mi325x?", (256,), (9, 4)),
    (r"mi308x?", (192,), (9, 4)),
    (r"mi300a", (128,), (9, 4)),
    (r"gfx950", (288,), (9, 5)),
    (r"gfx942", (192, 128), (9, 4)),
    (r"mi250x?", (64,), (9, 0)),
    (r"mi210", (64,), (9, 0)),
    (r"mi100", (32,), (9, 0)),
    (r"mi60|mi50", (32, 16), (9, 0)),
    (r"w7900", (48,), (11, 0)),
    (r"r9700", (32,), (12, 0)),
    (r"7900 ?xtx", (24,), (11, 0)),
    (r"7900 ?xt", (20,), (11, 0)),
    (r"9070", (16,), (12, 0)),
    (r"gaudi ?3", (128,), (9, 0)),
    (r"gaudi ?2", (96,), (9, 0)),
    (r"arc.*b60", (24,), (9, 0)),
    (r"a770", (16, 8), (9, 0)),
)
"""Patterns over lower-case names, gigabytes with the most usual first, compute capability; the
first pattern that is found decides. A MI250 is two devices of 64 GB."""
