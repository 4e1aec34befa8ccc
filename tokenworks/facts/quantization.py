"""Number formats of weights and KV caches: how many bytes, and which tensors they cover."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Covers(Enum):
    """Which tensors a scheme replaces; embeddings, norms, routers and vision towers never."""

    NOTHING = "nothing"
    LINEAR = "linear layers"
    FEED_FORWARD = "feed-forward layers"
    EXPERTS = "experts"


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """One format of weights: bytes per quantised parameter, scales included.

    ``exact`` is false where a name leaves the format open, so that bytes are a bound from above.
    """

    name: str
    bytes_per_parameter: float
    covers: Covers = Covers.LINEAR
    exact: bool = True


NONE = Scheme(name="none", bytes_per_parameter=2, covers=Covers.NOTHING)
FP8 = Scheme(name="fp8", bytes_per_parameter=1 + 4 / 128**2)
INT8 = Scheme(name="int8", bytes_per_parameter=1.0)
INT4_ZERO = Scheme(name="int4 with zero points", bytes_per_parameter=0.5 + 2.5 / 128)
INT4 = Scheme(name="int4", bytes_per_parameter=0.5 + 2 / 128)
NF4 = Scheme(name="nf4", bytes_per_parameter=0.5 + 4 / 64)
NVFP4 = Scheme(name="nvfp4", bytes_per_parameter=0.5 + 1 / 16)
MXFP4 = Scheme(name="mxfp4", bytes_per_parameter=0.5 + 1 / 32, covers=Covers.EXPERTS)
GGUF = Scheme(name="gguf", bytes_per_parameter=0.6, exact=False)
FOUR_BIT = Scheme(name="4-bit", bytes_per_parameter=0.5 + 1 / 16, exact=False)
"""Scales: AWQ and GPTQ hold 16 bits and a zero point for 128 weights, NF4 32 bits for 64, NVFP4 8
bits for 16, MXFP4 8 bits for 32; block FP8 holds 32 bits for 128 x 128."""

WORDS = (
    (r"mxfp4", MXFP4),
    (r"nvfp4|modelopt_fp4|fp4", NVFP4),
    (r"gguf", GGUF),
    (r"bitsandbytes|bnb|nf4", NF4),
    (r"w4a16|int4|gptq|w4a8", INT4),
    (r"awq|uint4", INT4_ZERO),
    (r"w8a8|w8a16|int8|smoothquant|\bsq\b", INT8),
    (r"fp8|float8|e4m3", FP8),
    (r"4[- ]?bit|4bpw", FOUR_BIT),
)
"""Words in the order in which they decide; ``compressed-tensors`` and ``modelopt`` name a
container, so that the model's name must say what is in it."""

CONTAINERS = ("compressed-tensors", "modelopt", "mixed_precision")

KV_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5 + 1 / 16,
    "float32": 4.0,
}
"""Bytes of one cached element."""


def scheme(words: str | None) -> Scheme | None:
    """The scheme that a quantisation's own words, or a model's name, state; None if they don't."""
    said = (words or "").lower()
    return next((found for pattern, found in WORDS if re.search(pattern, said)), None)


def is_container(words: str | None) -> bool:
    """Whether the words name a container format, which may hold any scheme."""
    said = (words or "").lower()
    return any(word in said for word in CONTAINERS)
