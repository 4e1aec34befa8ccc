"""The memory of planned replicas: never more than ``size`` grants, never more than there is."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.engines.memory_cases import size_case
from tokenworks.engines.replica_memory import MemoryBudget, Served, memory_budget, usable_gib
from tokenworks.errors import ConfigError
from tokenworks.facts.gpus import GPUS
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.parallelism import Arrangement, Machines, Wanted, arrangements

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MIXTURE = "Qwen/Qwen3-30B-A3B"
STATES = "Qwen/Qwen3-Next-80B-A3B-Instruct"
NODE = Machines(nodes=2, gpus_per_node=8, interconnect="nvswitch")
LENGTHS = (1, 512, 4096, 8192, 32768, 131072)


def served(name: str, **changes: object) -> Served:
    plain = Served(
        repository=name,
        record=model_shapes()[name],
        engine_version="1.2.1",
        max_batch_size=64,
        max_num_tokens=8192,
        max_model_len_tokens=8192,
        kv_cache_fraction=0.9,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def one_way(name: str, **wanted: int | bool) -> Arrangement:
    config = read_document(name, model_shapes()[name])
    return next(arrangements(config, NODE, Wanted(**wanted)))  # type: ignore[arg-type]


def ways(name: str, *, attention_data: bool) -> list[Arrangement]:
    try:
        config = read_document(name, model_shapes()[name])
    except ConfigError:
        return []
    return list(arrangements(config, NODE, Wanted(attention_data=attention_data)))


def budget(name: str, gpu: str = "h100", **changes: object) -> MemoryBudget:
    return memory_budget(served(name, **changes), GPUS[gpu], one_way(name))


def said_by_size(asked: Served, gpu: str, way: Arrangement) -> str | None:
    """What a person would be told who asks ``tokenworks size`` about the same start."""
    case = {
        "id": "asked",
        "engine": "tensorrt_llm",
        "engine_version": asked.engine_version,
        "model": asked.repository,
        "gpu": {"name": gpu},
        "gpu_count": way.gpus_per_replica,
        "tensor_parallel": way.tensor,
        "pipeline_parallel": way.pipeline,
        "data_parallel": way.caches,
        "max_model_len": asked.max_model_len_tokens,
        "max_num_seqs": asked.max_batch_size,
        "max_num_batched_tokens": asked.max_num_tokens,
        "memory_fraction": asked.kv_cache_fraction,
    }
    return size_case(case, model_shapes()).verdict


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_no_shipped_model_is_planned_where_size_says_that_it_does_not_fit(gpu: str) -> None:
    fitting = 0
    for name in model_shapes():
        for way in ways(name, attention_data=False):
            for length in LENGTHS:
                asked = served(name, max_model_len_tokens=length, max_num_tokens=min(8192, length))
                try:
                    starts = memory_budget(asked, GPUS[gpu], way).starts
                except ConfigError:
                    continue
                fitting += starts
                assert not starts or said_by_size(asked, gpu, way) == "fits", (name, way, length)
    assert fitting > 500


def test_a_hundred_shipped_models_can_be_planned_by_repository() -> None:
    named = [name for name in model_shapes() if re.fullmatch(r"[\w.-]+/[\w.-]+", name)]
    assert sum(bool(planned(name)) for name in named) >= 100


def planned(name: str) -> MemoryBudget | None:
    try:
        return budget(name, "b200")
    except ConfigError:
        return None


@given(
    st.sampled_from(sorted(model_shapes())),
    st.sampled_from(sorted(GPUS)),
    st.integers(1, 200_000),
    st.sampled_from([1, 8, 64, 512, 2048]),
    st.floats(0.3, 1.0),
    st.booleans(),
)
def test_a_plan_is_never_more_hopeful_than_size(
    name: str, gpu: str, length: int, batch: int, fraction: float, attention_data: bool
) -> None:
    asked = served(
        name,
        max_model_len_tokens=length,
        max_num_tokens=min(8192, length),
        max_batch_size=batch,
        kv_cache_fraction=fraction,
    )
    for way in ways(name, attention_data=attention_data):
        try:
            found = memory_budget(asked, GPUS[gpu], way)
        except ConfigError:
            continue
        assert not found.starts or said_by_size(asked, gpu, way) == "fits"


@given(
    st.sampled_from([LLAMA, MIXTURE, STATES, "openai/gpt-oss-120b"]),
    st.integers(1, 32768),
    st.sampled_from(sorted(GPUS)),
)
def test_a_budget_never_hands_out_more_than_there_is(name: str, tokens: int, gpu: str) -> None:
    found = budget(name, gpu, max_num_tokens=tokens, max_model_len_tokens=tokens)
    if found.kv_cache_bytes >= 0:
        assert sum(size for _, size, _ in found.rows()) <= found.usable_bytes + 4
    else:
        assert found.kv_cache_tokens == 0
    assert found.sequences * tokens <= found.kv_cache_tokens
    assert not found.starts or found.longest_tokens >= tokens


@given(st.integers(1, 8192), st.integers(1, 8192))
def test_a_longer_pass_never_leaves_more_for_the_kv_cache(one: int, other: int) -> None:
    shorter, longer = sorted((one, other))
    budgets = [budget(LLAMA, max_num_tokens=tokens) for tokens in (shorter, longer)]
    assert budgets[0].kv_cache_bytes >= budgets[1].kv_cache_bytes


def test_the_safe_end_is_named_where_it_is_not_the_likely_one() -> None:
    reasons = {name: because for name, _, because in budget(LLAMA).rows()}
    assert "the most that logs show" in reasons["activation peak"]
    assert "GiB is likely" in reasons["activation peak"]
    assert "the most that logs show" not in reasons["weights"]


def test_each_figure_names_what_it_rests_on() -> None:
    alone = {name: because for name, _, because in budget(LLAMA).rows()}
    assert alone["context and buffers"].startswith("fitted to one log: one B300")
    way = one_way(LLAMA, tensor=2)
    two = memory_budget(served(LLAMA), GPUS["h100"], way)
    group = {name: because for name, _, because in two.rows()}["context and buffers"]
    assert "no log shows it" in group
    assert "aiconfigurator" in group


def test_attention_on_each_gpu_holds_other_sequences_and_more_weights() -> None:
    asked = served(MIXTURE)
    together = memory_budget(asked, GPUS["h100"], one_way(MIXTURE, tensor=4))
    apart = memory_budget(asked, GPUS["h100"], one_way(MIXTURE, tensor=4, attention_data=True))
    assert apart.weight_bytes > together.weight_bytes
    assert apart.kv_cache_bytes < together.kv_cache_bytes
    assert apart.kv_bytes_per_token == 4 * together.kv_bytes_per_token
    assert apart.kv_cache_tokens == 4 * apart.cache_tokens
    assert apart.sequences % 4 == 0


def test_a_state_takes_the_room_of_tokens() -> None:
    found = budget(STATES, "b200")
    # 36 layers of 32 x 128 x 128 elements of 4 bytes, and what the convolutions keep.
    assert found.state_tokens * found.kv_bytes_per_token > 36 * 32 * 128 * 128 * 4
    assert found.sequences < found.kv_cache_tokens // 8192
    assert budget(LLAMA).state_tokens == 0


def test_stages_of_one_gpu_have_the_libraries_of_a_group() -> None:
    way = one_way(LLAMA, tensor=1, pipeline=2)
    parts = {name: size for name, size, _ in memory_budget(served(LLAMA), GPUS["h100"], way).rows()}
    assert parts["joints"] > 2**30
    assert "joints" not in {name for name, _, _ in budget(LLAMA).rows()}


def test_the_least_that_logs_report_of_a_gpu_is_planned_with() -> None:
    # An L4 had 21.63 GiB free before loading and 22.03 in all; an H200 reported 139.8 and 140.06.
    assert usable_gib(GPUS["l4"]) == 21.63
    assert usable_gib(GPUS["h200"]) == 139.8


def test_a_format_that_the_gpu_cannot_compute_is_refused() -> None:
    with pytest.raises(ConfigError, match="NVFP4, which h100 cannot compute; use a pool of Black"):
        budget("nvidia/DeepSeek-R1-0528-NVFP4-v2")


def test_a_model_that_is_not_understood_is_refused_with_the_field() -> None:
    with pytest.raises(ConfigError, match=r"granitemoehybrid .* is not understood"):
        budget("ibm-granite/granite-4.0-h-micro")
