"""The memory of one planned TensorRT-LLM replica: the law that ``size`` asks, at its safe end.

A case is made of what is planned and put to ``size_case``, so that a plan and ``tokenworks size``
cannot differ in what they know. A plan takes each fitted constant at the high end of the logs that
it was fitted to, and never calls a fit what ``size`` refuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tokenworks.engines.law import Budget, Row, Verdict, Workload
from tokenworks.engines.memory_cases import LAWS, SizedCase, size_case
from tokenworks.engines.tensorrt_llm import NVFP4_CAPABILITY
from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.cards import find_card
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.memory_constants import Constants, constants
from tokenworks.facts.quantization import NONE, NVFP4
from tokenworks.sizing.memory import GIB
from tokenworks.sizing.parallelism import Arrangement

ENGINE = "tensorrt_llm"
MIB = 2**20
REFUSED = (Verdict.KV_TOO_SMALL.value, Verdict.DOES_NOT_FIT.value)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one replica serves: a model's record as it was read, and the engine's limits.

    ``kv_cache_fraction`` is the share of free memory that the KV cache takes.
    """

    repository: str
    record: Mapping[str, Any]
    engine_version: str
    max_batch_size: int
    max_num_tokens: int
    max_model_len_tokens: int
    kv_cache_fraction: float


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """Where the memory of one GPU goes; all sizes in bytes.

    ``parts`` end with the KV cache, which is negative when all else alone does not fit. Of the
    replica's ``caches`` each holds other sequences. ``state_tokens`` is the room that the state of
    one sequence takes, in tokens. ``after_bytes`` is taken once the cache is there, of
    ``left_bytes``. ``refused`` says that the law knows of a reason why this does not start;
    ``bounds`` say where it knows only a bound, whose safe end this is.
    """

    usable_bytes: int
    parts: tuple[Row, ...]
    weight_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int
    cache_tokens: int
    caches: int
    state_tokens: int
    max_model_len_tokens: int
    after_bytes: int
    left_bytes: int
    refused: bool
    bounds: tuple[str, ...]

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that all KV caches of one replica hold, in whole blocks."""
        return self.cache_tokens * self.caches

    @property
    def sequences(self) -> int:
        """Sequences of full length that one replica holds at once."""
        return self.cache_tokens // (self.max_model_len_tokens + self.state_tokens) * self.caches

    @property
    def longest_tokens(self) -> int:
        """Tokens of the longest single sequence that has room."""
        return max(0, self.cache_tokens - self.state_tokens)

    @property
    def starts(self) -> bool:
        """Whether an engine starts and holds one sequence of full length."""
        return not self.refused and self.sequences >= 1 and self.after_bytes <= self.left_bytes

    def rows(self) -> tuple[tuple[str, int, str], ...]:
        """The budget as a table: part, bytes, and what the figure rests on; the KV cache last."""
        return tuple((row.part, round(row.size_bytes), row.because) for row in self.parts)


def memory_budget(served: Served, gpu: Gpu, way: Arrangement) -> MemoryBudget:
    """The budget of one GPU of a replica, at the safe end of what the law knows.

    Raises:
        ConfigError: when the law cannot compute one, or the GPU cannot compute in this format.
    """
    likely = size_case(_case(served, gpu, way), {served.repository: served.record})
    work = _understood(served, likely)
    joints = _joints(work, way)
    budget = _law(replace(work, weight_bytes=work.weight_bytes + joints), high_end())
    state = work.one_sequence_bytes(0, 0)
    refused = budget.verdict in (Verdict.KV_TOO_SMALL, Verdict.DOES_NOT_FIT)
    return MemoryBudget(
        usable_bytes=round(work.total_bytes),
        parts=tuple(_parts(work, budget, joints)),
        weight_bytes=round(work.weight_bytes),
        kv_cache_bytes=round(budget.kv_cache_bytes),
        kv_bytes_per_token=round(work.token_bytes),
        cache_tokens=budget.kv_cache_tokens or 0,
        caches=way.caches,
        state_tokens=math.ceil(state / work.token_bytes),
        max_model_len_tokens=served.max_model_len_tokens,
        after_bytes=round(budget.after_bytes),
        left_bytes=round(budget.left_bytes),
        refused=refused or likely.verdict in REFUSED,
        bounds=tuple(_bounds(work)),
    )


@cache
def high_end() -> Constants:
    """The shipped constants, each at the most that its logs show."""
    return {name: replace(each, value=each.highest) for name, each in constants().items()}


def usable_gib(gpu: Gpu) -> float:
    """The least of what logs report as one GPU's memory."""
    return min(gpu.usable_gib, find_card(gpu.name, None, None).total_gib)


def _case(served: Served, gpu: Gpu, way: Arrangement) -> dict[str, Any]:
    """What is planned, as ``size`` reads it."""
    return {
        "id": served.repository,
        "engine": ENGINE,
        "engine_version": served.engine_version,
        "model": served.repository,
        "gpu": {"name": gpu.name, "reported_total_gib": usable_gib(gpu)},
        "gpu_count": way.gpus_per_replica,
        "tensor_parallel": way.tensor,
        "pipeline_parallel": way.pipeline,
        "data_parallel": way.caches,
        "max_model_len": served.max_model_len_tokens,
        "max_num_seqs": served.max_batch_size,
        "max_num_batched_tokens": served.max_num_tokens,
        "memory_fraction": served.kv_cache_fraction,
    }


def _understood(served: Served, likely: SizedCase) -> Workload:
    work = likely.work
    if work is None:
        raise _refused(served, f"cannot be sized ({(likely.error or '').rstrip('.')})")
    if work.config.unknown:
        raise _refused(served, f"has {work.config.unknown[0]}, which is not understood")
    if work.scheme is NVFP4 and work.card.lacks(NVFP4_CAPABILITY):
        reason = f"is stored as NVFP4, which {work.card.name} cannot compute"
        raise _refused(
            served, reason, "use a pool of Blackwell GPUs, such as b200, or other weights"
        )
    return work


OWN_FILES = "give the model's own config.json in weights.config, or use other weights"


def _refused(served: Served, reason: str, remedy: str = OWN_FILES) -> ConfigError:
    return ConfigError(
        [Problem(key="weights.repository", given=served.repository, reason=reason, remedy=remedy)]
    )


def _joints(work: Workload, way: Arrangement) -> float:
    """Bytes that the law leaves out because it goes by the GPUs that share each layer.

    Attention that is not divided needs the activations of one GPU, and stages of one GPU the
    libraries of a group; of each part the larger is taken.
    """
    other = _joined(work, way)
    if other is None:
        return 0.0
    counted = {row.part: row.size_bytes for row in _law(work, high_end()).rows[1:-1]}
    rows = _law(other, high_end()).rows[1:-1]
    return sum(max(0.0, row.size_bytes - counted[row.part]) for row in rows)


def _joined(work: Workload, way: Arrangement) -> Workload | None:
    if way.attention_data:
        return replace(work, tensor_parallel=1)
    stages_of_one = way.pipeline > 1 and way.tensor == 1
    return replace(work, tensor_parallel=2) if stages_of_one else None


def _parts(work: Workload, budget: Budget, joints: float) -> Iterator[Row]:
    """The law's rows with what the plan added, and beside each bound what is likely."""
    likely = {row.part: row.size_bytes for row in _law(work, constants()).rows}
    first, *others, last = budget.rows
    stored = work.scheme.name if work.scheme is not NONE else work.config.dtype
    yield replace(
        first,
        size_bytes=first.size_bytes - joints,
        because=f"{stored}, from the shapes of the model's tensors",
    )
    for row in others:
        yield replace(row, because=row.because + _beyond(row.size_bytes, likely[row.part]))
    if joints:
        yield Row(
            part="joints", size_bytes=joints, because="of attention or stages that are not divided"
        )
    yield last


def _bounds(work: Workload) -> Iterator[str]:
    """What the law knows only a bound of, in words; the plan has its safe end."""
    yield from (f"{doubt}; the most is planned" for doubt in _law(work, constants()).doubts)
    if work.scheme.highest is not None:
        open_ = f"{work.scheme.name} leaves open how many bits a weight takes"
        yield f"{open_}; the widest format is planned"


def _beyond(safe: float, likely: float) -> str:
    if safe - likely < MIB:
        return ""
    return f"; the most that logs show, {likely / GIB:.2f} GiB is likely"


def _law(work: Workload, known: Constants) -> Budget:
    return LAWS[ENGINE](work, known)
