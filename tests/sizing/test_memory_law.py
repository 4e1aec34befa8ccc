"""Properties of the memory law: what must hold for any model, card and setting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory_cases import CASES, H100, log
from tokenworks.engines.memory_cases import LAWS, SizedCase, size_case
from tokenworks.facts.cards import find_card
from tokenworks.facts.shipped_models import model_shapes

asked = st.fixed_dictionaries(
    {
        "id": st.just("case"),
        "engine": st.sampled_from(sorted(LAWS)),
        "engine_version": st.sampled_from(["0.7.3", "0.11.0", "0.19.0", "0.33.0", "1.2.1", None]),
        "model": st.sampled_from(sorted(model_shapes())),
        "gpu_count": st.just(8),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "quantization": st.sampled_from([None, "fp8", "awq", "nvfp4"]),
        "kv_cache_dtype": st.sampled_from([None, "auto", "fp8"]),
        "max_model_len": st.integers(128, 2**18),
        "max_num_seqs": st.integers(1, 2048),
        "max_num_batched_tokens": st.integers(512, 32768),
        "memory_fraction": st.floats(0.3, 0.98),
    }
)


def sized(case: dict[str, Any], total_gib: float) -> SizedCase:
    return size_case({**case, "gpu": {"reported_total_gib": total_gib}}, model_shapes())


@settings(max_examples=300, deadline=None)
@given(asked, st.integers(128, 2**18), st.floats(8, 288))
def test_more_context_never_needs_less_memory(
    case: dict[str, Any], other: int, total_gib: float
) -> None:
    short, long = sorted((case["max_model_len"], other))
    at_short = sized({**case, "max_model_len": short}, total_gib)
    at_long = sized({**case, "max_model_len": long}, total_gib)
    if at_long.verdict == "fits":
        assert at_short.verdict == "fits"


@settings(max_examples=300, deadline=None)
@given(asked, st.floats(8, 288), st.floats(8, 288))
def test_a_larger_gpu_never_turns_fitting_into_not_fitting(
    case: dict[str, Any], one: float, other: float
) -> None:
    smaller, larger = sorted((one, other))
    if sized(case, smaller).verdict == "fits":
        assert sized(case, larger).verdict == "fits"


@settings(max_examples=100, deadline=None)
@given(asked, st.floats(8, 288))
def test_a_narrower_cache_never_holds_fewer_tokens(case: dict[str, Any], total_gib: float) -> None:
    wide = sized({**case, "kv_cache_dtype": "bfloat16"}, total_gib).kv_cache_tokens
    narrow = sized({**case, "kv_cache_dtype": "fp8"}, total_gib).kv_cache_tokens
    if wide is not None and narrow is not None:
        assert narrow >= wide


@settings(max_examples=100, deadline=None)
@given(asked, st.floats(8, 288))
def test_what_fits_holds_one_sequence(case: dict[str, Any], total_gib: float) -> None:
    found = sized(case, total_gib)
    if found.verdict != "fits" or case["engine"] == "sglang":
        return
    if found.kv_cache_tokens is None:
        assert "at most" in str(found.note)
    else:
        assert found.kv_cache_tokens >= case["max_model_len"] * 0.9


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["name", "memory_gib", "reported_total_gib"]), st.integers()),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(sorted(H100)), values)
def test_no_value_in_any_field_of_a_case_ends_in_anything_but_an_answer(
    case: dict[str, Any], field: str, value: Any
) -> None:
    found = size_case({**case, field: value}, model_shapes())
    assert found.verdict or found.error


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CASES), st.data(), values)
def test_no_value_in_any_field_of_a_model_ends_in_anything_but_an_answer(
    case: dict[str, Any], data: st.DataObject, value: Any
) -> None:
    record = model_shapes().get(case["model"] or "", {})
    field = data.draw(st.sampled_from(sorted(record) or ["hidden_size"]))
    found = size_case(case, {str(case["model"]): {**record, field: value}})
    assert found.verdict or found.error


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("engine", "ollama", "engine: ollama is an engine without a memory law"),
        ("model", "org/unheard-of", "model: org/unheard-of is a model whose shapes are unknown"),
        ("model", None, "model: nothing is named"),
        ("gpu", {"name": "abacus"}, "gpu: abacus is a GPU whose memory is not known"),
        ("gpu", {"memory_gib": -80}, "gpu.memory_gib: -80 is not a size in GiB"),
        ("tensor_parallel", [1], "tensor_parallel: [1] is not a whole number"),
        ("gpu_count", 0, "gpu_count: 0 is not a sensible count"),
        ("tensor_parallel", -1, "tensor_parallel: -1 is not a sensible count"),
        ("tensor_parallel", 3, "tensor_parallel: 3 does not divide the 32 attention heads"),
        ("max_model_len", 0, "max_model_len: 0 is not a sensible count"),
        ("max_model_len", 10**15, "max_model_len: 1000000000000000 is not a sensible count"),
        ("max_model_len", "long", "max_model_len: 'long' is not a whole number"),
        ("memory_fraction", 1.2, "memory_fraction: 1.2 is not a share"),
        ("kv_cache_dtype", "fp12", "kv_cache_dtype: fp12 is a data type whose size is unknown"),
        ("quantization", "magic", "quantization: magic is a format whose size is unknown"),
    ],
)
def test_bad_input_is_refused_with_the_field_that_is_wrong(
    field: str, value: Any, said: str
) -> None:
    found = size_case({**H100, field: value}, model_shapes())
    assert found.verdict is None
    assert found.error is not None
    assert found.error.startswith(said)


def test_more_ranks_than_gpus_do_not_fit() -> None:
    found = size_case({**H100, "tensor_parallel": 2}, model_shapes())
    assert found.verdict == "does_not_fit"
    assert str(found.note).startswith("gpu_count: 1 is less than the 2 GPUs")


def test_a_shared_gpu_is_never_promised() -> None:
    found = size_case({**H100, "contended": True}, model_shapes())
    assert found.verdict == "kv_too_small"
    assert "other processes" in str(found.note)
    assert "at the other it would be fits" in str(found.note)


def test_what_leaves_nothing_open_needs_no_note() -> None:
    found = size_case(H100, model_shapes())
    assert (found.verdict, found.error, found.note) == ("fits", None, None)


def test_a_card_of_two_sizes_is_judged_as_the_smaller() -> None:
    a100 = {**H100, "gpu": {"name": "NVIDIA A100"}, "memory_fraction": 0.9}
    either = size_case(a100, model_shapes())
    assert either.verdict == "fits"
    assert "sold with 80 and 40 GB" in str(either.note)
    assert "the same over all of that" in str(either.note)
    only_one = {**a100, "model": "Qwen/Qwen3-14B", "max_model_len": 40960}
    found = size_case(only_one, model_shapes())
    assert found.verdict == "kv_too_small"
    assert "at the other it would be fits" in str(found.note)
    large = {**only_one, "gpu": {"name": "NVIDIA A100", "memory_gib": 80}}
    assert size_case(large, model_shapes()).verdict == "fits"


def test_a_card_known_only_by_its_catalogue_size_is_judged_at_its_lowest() -> None:
    unnamed = {**H100, "gpu": {"memory_gib": 24}, "memory_fraction": 0.9}
    assert size_case(unnamed, model_shapes()).verdict == "fits"
    close = {**unnamed, "gpu": {"memory_gib": 22}}
    found = size_case(close, model_shapes())
    assert found.verdict == "kv_too_small"
    assert "only the catalogue size" in str(found.note)


def test_compressed_attention_is_judged_by_its_bound_and_gives_no_tokens() -> None:
    found = size_case(log("vllm-51454-dsv4-flash-0731-b200-dp8"), model_shapes())
    assert found.verdict == "fits"
    assert found.kv_cache_tokens is None
    assert "at most what full attention would" in str(found.note)


def test_without_a_parallelism_several_gpus_may_be_one() -> None:
    eight = {**H100, "gpu_count": 8, "tensor_parallel": None}
    found = size_case(eight, model_shapes())
    assert found.verdict == "fits"
    assert "tensor_parallel is not given for 8 GPUs" in str(found.note)
    large = {**eight, "model": "Qwen/Qwen2.5-72B-Instruct"}
    wide = size_case({**large, "tensor_parallel": 8}, model_shapes())
    guessed = size_case(large, model_shapes())
    assert (wide.verdict, guessed.verdict) == ("fits", "does_not_fit")
    assert guessed.weights_gib_per_gpu == wide.weights_gib_per_gpu


def test_without_a_version_the_worst_release_decides_from_the_first_that_serves_the_model() -> None:
    gemma = {**H100, "model": "nvidia/Gemma-4-31B-IT-NVFP4", "max_model_len": 262144}
    ends = {v: size_case({**gemma, "engine_version": v}, model_shapes()).verdict for v in RELEASES}
    assert ends == {"0.20.0": "kv_too_small", "0.21.0": "fits"}
    found = size_case({**gemma, "engine_version": None}, model_shapes())
    assert found.verdict == "kv_too_small"
    assert "0.19.0 to 0.33.0 is taken" in str(found.note)


RELEASES = ("0.20.0", "0.21.0")


def test_unified_memory_leaves_the_host_its_share() -> None:
    spark = {**H100, "gpu": {"name": "NVIDIA DGX Spark (GB10)"}, "memory_fraction": 0.8}
    assert size_case(spark, model_shapes()).verdict == "fits"
    found = size_case({**spark, "memory_fraction": 0.88}, model_shapes())
    assert found.verdict == "does_not_fit"
    assert "shares its memory with the host" in str(found.note)


def test_weights_in_the_page_cache_count_on_unified_memory_until_vllm_looks_past_them() -> None:
    spark = {**H100, "gpu": {"name": "NVIDIA DGX Spark (GB10)"}, "memory_fraction": 0.3}
    spark = {**spark, "model": "Qwen/Qwen3-8B", "max_num_seqs": 64}
    before = size_case({**spark, "engine_version": "0.16.0"}, model_shapes())
    since = size_case({**spark, "engine_version": "0.17.0"}, model_shapes())
    assert "page cache" in str(before.note)
    assert "page cache" not in str(since.note)


def test_a_length_that_the_engine_fits_needs_room_for_one_block() -> None:
    tight = {**H100, "model": "Qwen/Qwen3-32B", "max_model_len": 40960, "memory_fraction": 0.85}
    assert size_case(tight, model_shapes()).verdict == "kv_too_small"
    assert size_case({**tight, "max_model_len": "auto"}, model_shapes()).verdict == "fits"


def test_attention_of_its_own_on_each_gpu_is_not_divided() -> None:
    both = {**H100, "engine": "tensorrt_llm", "engine_version": "1.2.0", "gpu_count": 8}
    both = {**both, "model": "Qwen/Qwen3-235B-A22B-FP8", "tensor_parallel": 8}
    divided = size_case({**both, "data_parallel": 1}, model_shapes())
    own = size_case({**both, "data_parallel": 8}, model_shapes())
    assert own.weights_gib_per_gpu is not None
    assert divided.weights_gib_per_gpu is not None
    assert own.weights_gib_per_gpu > divided.weights_gib_per_gpu
    assert own.kv_cache_tokens is not None
    assert divided.kv_cache_tokens is not None
    assert own.kv_cache_tokens < divided.kv_cache_tokens


def test_memory_is_physical_and_not_what_the_catalogue_says() -> None:
    assert find_card("NVIDIA H100 80GB", 80, None).total_gib == 79.19
    assert find_card("NVIDIA L40S", 48, None).total_gib == 44.4
    assert find_card("NVIDIA H100 80GB", 80, 79.1).total_gib == 79.1


def test_of_two_kinds_of_card_the_smaller_decides() -> None:
    mixed = find_card("NVIDIA RTX 5070 Ti 16GB + RTX 5090 D 32GB", None, None)
    assert mixed.total_gib < 16
