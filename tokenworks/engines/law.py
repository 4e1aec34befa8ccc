"""The shape that every engine's memory law shares: what is asked, what comes out, how it ends."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import Enum

from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.cards import Card
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.quantization import Scheme
from tokenworks.sizing.memory import GIB
from tokenworks.sizing.memory.kv import kv_bytes_per_token, sequence_bytes, state_bytes

Version = tuple[int, int, int]


class Verdict(Enum):
    """How a start ends, as far as GPU memory decides it."""

    FITS = "fits"
    KV_TOO_SMALL = "kv_too_small"
    DOES_NOT_FIT = "does_not_fit"


def parse_version(text: str | None) -> Version | None:
    """Major, minor and patch of a release; None where the words name none."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    if found is None or found.group(0).startswith("0.0"):
        return None
    return int(found.group(1)), int(found.group(2)), int(found.group(3) or 0)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One model on one kind of GPU, as an engine would be started; None is the engine's default.

    ``weight_bytes`` and ``beside_weights_bytes`` are of the fullest GPU.
    """

    config: ModelConfig
    scheme: Scheme
    card: Card
    weight_bytes: float
    kv_cache_bytes: float
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    version: Version | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    memory_fraction: float | None = None

    @property
    def total_bytes(self) -> float:
        """Physical memory of one GPU."""
        return self.card.total_gib * GIB

    @property
    def length(self) -> int | None:
        """Tokens of the longest sequence; as asked, else as the model was trained."""
        return self.max_model_len or self.config.max_position_embeddings

    def newer_than(self, *version: int) -> bool | None:
        """Whether the engine is at least this release; None where its version is not known."""
        return None if self.version is None else self.version >= version

    @property
    def token_bytes(self) -> float:
        """Bytes of one token on the fullest GPU, were every attention layer full."""
        whole = kv_bytes_per_token(self.config, self.tensor_parallel, self.kv_cache_bytes)
        return whole * self.stage_share

    @property
    def stage_share(self) -> float:
        """Share of the layers that the fullest pipeline stage holds."""
        layers = self.config.layers
        return math.ceil(layers / self.pipeline_parallel) / layers

    def one_sequence_bytes(self, tokens: int, kept_beyond_window: int) -> float:
        """Bytes of one sequence on the fullest GPU, states included."""
        rows = sequence_bytes(
            self.config,
            tokens,
            tensor_parallel=self.tensor_parallel,
            kv_cache_bytes=self.kv_cache_bytes,
            kept_beyond_window=kept_beyond_window,
        )
        return (rows + state_bytes(self.config, self.tensor_parallel)) * self.stage_share


@dataclass(frozen=True, kw_only=True)
class Row:
    """One part of a budget: bytes on one GPU, and what the figure rests on."""

    part: str
    size_bytes: float
    because: str


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Where the memory of one GPU goes, and how the start ends.

    ``kv_cache_tokens`` is None where a token's bytes are not known. ``needed_bytes`` is what one
    sequence of full length takes. ``after_bytes`` is what the engine still takes once the KV cache
    is allocated, ``left_bytes`` what is then free for it. ``doubts`` say why nothing better than
    a bound is known; with doubts ``verdict`` is that of the pessimistic bound, or None.
    """

    rows: tuple[Row, ...]
    kv_cache_bytes: float
    kv_cache_tokens: int | None
    needed_bytes: float | None
    after_bytes: float
    left_bytes: float
    verdict: Verdict | None
    doubts: tuple[str, ...] = field(default=())

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights."""
        return self.rows[0].size_bytes


def judge(
    *, loaded: float, total: float, kv: float, needed: float, after: float, left: float
) -> Verdict:
    """The outcome of a start, step by step as an engine goes: load, size the cache, warm up."""
    if loaded > total:
        return Verdict.DOES_NOT_FIT
    if kv <= 0 or kv < needed:
        return Verdict.KV_TOO_SMALL
    return Verdict.FITS if after <= left else Verdict.DOES_NOT_FIT


def check_split(config: ModelConfig, tensor_parallel: int) -> None:
    """Refuse a tensor parallelism that engines refuse.

    Raises:
        ConfigError: when it divides neither the attention heads nor goes with the KV heads.
    """
    if config.attention_heads % tensor_parallel:
        reason = f"does not divide the {config.attention_heads} attention heads"
        remedy = "use a divisor of them"
        raise ConfigError(
            [
                Problem(
                    key="tensor_parallel",
                    given=str(tensor_parallel),
                    reason=reason,
                    remedy=remedy,
                )
            ]
        )
