"""The roofline estimate: what it must never claim."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.facts.gpu_rates import ATTAINED_HIGH, ATTAINED_LOW, GPU_RATES, GpuRates
from tokenworks.facts.gpus import GPUS
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.roofline import Replica, active_share

LLAMA = Replica(
    weight_bytes=16_060_522_496,
    computed_bytes=16_060_522_496,
    kv_bytes_per_token=131_072,
    prompt_tokens=1_500,
    output_tokens=300,
    rates=GPU_RATES["h100"],
    attained=1.0,
)

replicas = st.builds(
    Replica,
    weight_bytes=st.integers(10**9, 10**12),
    computed_bytes=st.integers(10**8, 10**9),
    kv_bytes_per_token=st.integers(1_000, 1_000_000),
    prompt_tokens=st.integers(1, 100_000),
    output_tokens=st.integers(1, 10_000),
    rates=st.sampled_from(list(GPU_RATES.values())),
    attained=st.floats(0.1, 1.0),
)


def test_one_sequence_is_decoded_no_faster_than_the_weights_are_read() -> None:
    # 16.06 GB of weights and 1800 tokens of KV cache at 3350 GB/s: 4.86 ms, 206 tokens/s.
    assert LLAMA.step_seconds(1) == pytest.approx(0.004864, rel=1e-3)


def test_a_prompt_costs_two_operations_for_each_parameter_and_token() -> None:
    # 2 x 8.03e9 parameters x 1500 tokens / 989e12 per second.
    assert LLAMA.prefill_seconds == pytest.approx(2 * 8.030261248e9 * 1500 / 989e12)


def test_the_range_is_a_range() -> None:
    low = dataclasses.replace(LLAMA, attained=ATTAINED_LOW)
    high = dataclasses.replace(LLAMA, attained=ATTAINED_HIGH)
    assert low.requests_per_second(32) == pytest.approx(high.requests_per_second(32) / 2)


def test_a_measured_decode_lies_inside_the_range() -> None:
    # Qwen3-14B (14.8 billion parameters, 160 KiB of KV cache a token) on an A100 of 2,039 GB/s:
    # 24.3 ms per output token for one sequence of 128 + 128 (tt-inference-server issue 340).
    a100 = GpuRates(bytes_per_second=2_039e9, operations_per_second=312e12)
    slow, fast = (
        Replica(
            weight_bytes=29_600_000_000,
            computed_bytes=29_600_000_000,
            kv_bytes_per_token=163_840,
            prompt_tokens=128,
            output_tokens=128,
            rates=a100,
            attained=attained,
        ).step_seconds(1)
        for attained in (ATTAINED_LOW, ATTAINED_HIGH)
    )
    assert fast < 0.0243 < slow


@given(replicas, st.integers(1, 500))
def test_concurrency_equals_rate_times_time(replica: Replica, sequences: int) -> None:
    product = replica.requests_per_second(sequences) * replica.request_seconds(sequences)
    assert product == pytest.approx(sequences)


@given(replicas, st.integers(1, 500), st.integers(1, 500))
def test_more_sequences_give_more_throughput_and_later_first_tokens(
    replica: Replica, one: int, other: int
) -> None:
    fewer, more = sorted((one, other))
    slack = 1 + 1e-9
    assert replica.requests_per_second(fewer) <= replica.requests_per_second(more) * slack
    assert replica.first_token_seconds(fewer) <= replica.first_token_seconds(more) * slack


@given(replicas, st.floats(0.01, 60), st.integers(1, 300))
def test_the_sequences_within_a_target_meet_it_and_one_more_would_not(
    replica: Replica, target: float, most: int
) -> None:
    found = replica.sequences_within(target, most)
    assert 0 <= found <= most
    if found:
        assert replica.first_token_seconds(found) <= target
    if found < most:
        assert replica.first_token_seconds(found + 1) > target


def test_every_gpu_that_can_be_planned_has_its_rates() -> None:
    assert set(GPU_RATES) <= set(GPUS)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # Published active parameters: 3.3 of 30.5, 5.1 of 116.8, all of 8.03 billion.
        ("Qwen/Qwen3-30B-A3B", 3.3),
        ("openai/gpt-oss-120b", 5.1),
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03),
    ],
)
def test_one_token_passes_through_the_active_parameters(name: str, billions: float) -> None:
    config = read_document(name, model_shapes()[name])
    assert config.total_parameters is not None
    active = active_share(config) * config.total_parameters / 1e9
    assert active == pytest.approx(billions, rel=0.15)
