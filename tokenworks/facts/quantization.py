"""Number formats of weights and KV caches: how many bytes, and which tensors they cover."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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

    ``highest`` is the bytes of the widest format that the same words may mean, where they leave the
    format open; None where they do not.
    """

    name: str
    bytes_per_parameter: float
    covers: Covers = Covers.LINEAR
    highest: float | None = None

    @property
    def ends(self) -> tuple[Scheme, ...]:
        """The scheme by its best estimate, and where that is a guess, the widest it may be."""
        if self.highest is None:
            return (self,)
        return self, replace(self, bytes_per_parameter=self.highest)


NONE = Scheme(name="none", bytes_per_parameter=2, covers=Covers.NOTHING)
FP8 = Scheme(name="fp8", bytes_per_parameter=1 + 4 / 128**2)
INT8 = Scheme(name="int8", bytes_per_parameter=1.0)
INT4_ZERO = Scheme(name="int4 with zero points", bytes_per_parameter=0.5 + 2.5 / 128)
INT4 = Scheme(name="int4", bytes_per_parameter=0.5 + 2 / 128)
NF4 = Scheme(name="nf4", bytes_per_parameter=0.5 + 4 / 64)
NVFP4 = Scheme(name="nvfp4", bytes_per_parameter=0.5 + 1 / 16)
MXFP4 = Scheme(name="mxfp4", bytes_per_parameter=0.5 + 1 / 32, covers=Covers.EXPERTS)
GGUF = Scheme(name="gguf", bytes_per_parameter=4.85 / 8, highest=8.5 / 8)
FOUR_BIT = Scheme(name="4-bit", bytes_per_parameter=0.5 + 1 / 16, highest=4.85 / 8)
CONTAINER = Scheme(name="of some format", bytes_per_parameter=0.5 + 1 / 16, highest=8.5 / 8)
"""Scales: AWQ and GPTQ hold 16 bits and a zero point for 128 weights, NF4 32 bits for 64, NVFP4 8
bits for 16, MXFP4 8 bits for 32; block FP8 holds 32 bits for 128 x 128. GGUF: the bits per weight
that llama.cpp prints for Q4_K_M (4.85) and Q8_0 (8.5), between which most files lie."""

GGUF_BITS = {
    "iq1": 2.0,
    "iq2": 2.7,
    "iq3": 3.7,
    "iq4": 4.5,
    "q2": 3.35,
    "q3": 4.27,
    "q4": 4.85,
    "q5": 5.69,
    "q6": 6.59,
    "q8": 8.5,
}
"""Bits per weight of the widest variant of each kind (llama.cpp ``tools/quantize/README.md``)."""

WORDS = (
    (r"mxfp4", MXFP4),
    (r"nvfp4|modelopt_fp4|fp4", NVFP4),
    (r"gguf", GGUF),
    (r"bitsandbytes|bnb|nf4", NF4),
    (r"w4a16|int4|gptq|w4a8|w4afp8|auto-?round", INT4),
    (r"awq|uint4", INT4_ZERO),
    (r"w8a8|w8a16|int8|smoothquant|\bsq\b|8[- ]?bits?\b|eetq", INT8),
    (r"fp8|float8|e4m3", FP8),
    (r"4[- ]?bits?\b", FOUR_BIT),
)
"""Words in the order in which they decide; ``compressed-tensors`` and ``modelopt`` name a
container, so that the model's name must say what is in it."""

UNQUANTISED = r"(none|no|unquanti[sz]ed|bf16|bfloat16|fp16|float16|half|16[- ]?bits?|auto)"

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
    bits = _stated_bits(said)
    if bits is not None:
        return Scheme(name=f"{bits:g} bits", bytes_per_parameter=bits / 8)
    return next((found for pattern, found in WORDS if re.search(pattern, said)), None)


def _stated_bits(said: str) -> float | None:
    """Bits per weight, where they stand in a name: "4.5bpw", or a kind of GGUF such as Q4_K_M."""
    per_weight = re.search(r"(\d(?:\.\d+)?) ?bpw", said)
    if per_weight:
        return float(per_weight.group(1))
    kind = re.search(r"(?<![a-z\d])(iq[1-4]|q[234568])_", said)
    return GGUF_BITS[kind.group(1)] if kind else None


def is_unquantised(words: str) -> bool:
    """Whether the words say that weights are kept as they were trained."""
    return re.fullmatch(UNQUANTISED, words.strip().lower()) is not None


def is_container(words: str | None) -> bool:
    """Whether the words name a container format, which may hold any scheme."""
    said = (words or "").lower()
    return any(word in said for word in CONTAINERS)
