"""The shape that every engine's memory law shares: what is asked, what comes out, how it ends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
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


SEVERITY = (Verdict.FITS, Verdict.KV_TOO_SMALL, Verdict.DOES_NOT_FIT)
"""From the best to the worst: an engine sizes its cache only after it has loaded."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts: the safe end of a bound."""
    return max(verdicts, key=SEVERITY.index)


LATEST_MAJOR = 20
"""Container tags such as 24.07 name a month and not a release of an engine."""


def parse_version(text: str | None) -> Version | None:
    """Major, minor and patch of a release; None where the words name none."""
    found = re.search(r"(?<![\d.\w])v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    if (major, minor) == (0, 0) or major >= LATEST_MAJOR:
        return None
    return major, minor, patch


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One model on one kind of GPU, as an engine would be started; None is the engine's default.

    ``weight_bytes`` is of the fullest GPU. ``attention_parallel`` is by how many GPUs attention is
    divided, where that is less than ``tensor_parallel`` (data-parallel attention); ``contended``
    says that other processes hold memory of the same GPUs.
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
    attention_parallel: int | None = None
    contended: bool = False

    @property
    def total_bytes(self) -> float:
        """Physical memory of one GPU."""
        return self.card.total_gib * GIB

    @property
    def length(self) -> int | None:
        """Tokens of the longest sequence; as asked, else as the model was trained."""
        return self.max_model_len or self.config.max_position_embeddings

    @property
    def heads_divided_by(self) -> int:
        """By how many GPUs the heads of attention are divided."""
        return self.attention_parallel or self.tensor_parallel

    def newer_than(self, *version: int) -> bool | None:
        """Whether the engine is at least this release; None where its version is not known."""
        return None if self.version is None else self.version >= version

    @property
    def token_bytes(self) -> float:
        """Bytes of one token on the fullest GPU, were every attention layer full."""
        whole = kv_bytes_per_token(self.config, self.heads_divided_by, self.kv_cache_bytes)
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
            tensor_parallel=self.heads_divided_by,
            kv_cache_bytes=self.kv_cache_bytes,
            kept_beyond_window=kept_beyond_window,
        )
        return (rows + state_bytes(self.config, self.heads_divided_by)) * self.stage_share


@dataclass(frozen=True, kw_only=True)
class Row:
    """One part of a budget: bytes on one GPU, and what the figure rests on."""

    part: str
    size_bytes: float
    because: str


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Why a budget is only one end of a bound, and what the other end takes more, in bytes.

    ``loading_bytes`` may be needed for a while during loading, ``before_bytes`` be in use before
    the KV cache is sized, ``after_bytes`` once it is there; ``known_end`` is how starts like this
    one have ended whatever the arithmetic said.
    """

    because: str
    loading_bytes: float = 0.0
    before_bytes: float = 0.0
    after_bytes: float = 0.0
    known_end: Verdict | None = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a start takes step by step, in bytes on one GPU: load, size the cache, warm up.

    ``share`` is by how much the KV cache shrinks for each byte that is taken before it, and
    ``left_share`` by how much what is left beside the cache.
    """

    loaded: float
    total: float
    kv: float
    needed: float
    after: float
    left: float
    share: float = 1.0
    left_share: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """How a start with exactly these figures ends."""
        if self.loaded > self.total:
            return Verdict.DOES_NOT_FIT
        if self.kv <= 0 or self.kv < self.needed:
            return Verdict.KV_TOO_SMALL
        return Verdict.FITS if self.after <= self.left else Verdict.DOES_NOT_FIT

    def widened(self, doubts: Iterable[Doubt]) -> Account:
        """The account at the far end of every doubt."""
        found = tuple(doubts)
        before = sum(doubt.before_bytes for doubt in found)
        return replace(
            self,
            loaded=self.loaded + sum(doubt.loading_bytes for doubt in found),
            kv=self.kv - before * self.share,
            left=self.left - before * self.left_share,
            after=self.after + sum(doubt.after_bytes for doubt in found),
        )

    def safe_verdict(self, doubts: Iterable[Doubt]) -> Verdict:
        """The worst end of the bound that doubts leave: never better than ``verdict``."""
        found = tuple(doubts)
        known = (doubt.known_end for doubt in found if doubt.known_end is not None)
        return worst((self.verdict, self.widened(found).verdict, *known))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Where the memory of one GPU goes, and how the start ends.

    ``kv_cache_tokens`` is None where a token's bytes are not known. ``needed_bytes`` is what one
    sequence of full length takes. ``after_bytes`` is what the engine still takes once the KV cache
    is allocated, ``left_bytes`` what is then free for it. ``estimate`` is how the start ends by the
    best estimate, ``verdict`` how it ends at the safe end of all ``doubts``, never better.
    """

    rows: tuple[Row, ...]
    kv_cache_bytes: float
    kv_cache_tokens: int | None
    needed_bytes: float | None
    after_bytes: float
    left_bytes: float
    estimate: Verdict
    verdict: Verdict
    doubts: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights."""
        return self.rows[0].size_bytes


HOST_SHARE = 0.16
"""Most of a unified memory that its host is seen to hold: 102 of 121.69 GiB were free on an idle
DGX Spark (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks issue 47)."""


def shared_memory_doubts(work: Workload, *, seen_when_sizing: bool) -> tuple[Doubt, ...]:
    """Doubts of every engine about memory that is not its own.

    ``seen_when_sizing`` says whether the engine sizes its cache by what is free, so that what the
    host holds makes the cache smaller, or by a share of the total, so that it is missed afterwards.
    """
    found = []
    if work.contended:
        because = "other processes hold memory on this GPU, and how much is not stated"
        found.append(Doubt(because=because, known_end=Verdict.KV_TOO_SMALL))
    if work.card.unified:
        held = HOST_SHARE * work.total_bytes
        because = f"{work.card.name} shares its memory with the host, which may hold"
        before, after = (held, 0.0) if seen_when_sizing else (0.0, held)
        because = f"{because} {held / GIB:.0f} GiB"
        found.append(Doubt(because=because, before_bytes=before, after_bytes=after))
    return tuple(found)


def page_cache_doubts(work: Workload) -> tuple[Doubt, ...]:
    """The doubt that files just read count as memory in use.

    ``cudaMemGetInfo`` on NVIDIA's unified memory is the kernel's MemFree, which counts the page
    cache as used (vllm-project/vllm issue 48140, unslothai/unsloth pull request 10704).
    """
    if not work.card.page_cache_counts:
        return ()
    cached = f"{work.weight_bytes / GIB:.0f} GiB of weights"
    because = f"on {work.card.name} {cached} in the page cache may count as in use"
    return (Doubt(because=because, before_bytes=work.weight_bytes),)


MOST_VISION_BYTES = 4 * GIB
"""The largest activation peak of a vision encoder in the logs beyond its language model's
(Qwen2.5-VL-7B: 4.9 GiB in all)."""


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
