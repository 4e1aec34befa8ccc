"""The memory law against engines' own start-up logs, and against folds it was not fitted to."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.fit_memory import fit
from benchmarks.public_formulas import aiconfigurator, weights_and_kv
from benchmarks.sizing import Outcome, held_out, ours, predict
from tests.memory_cases import CASES, log
from tokenworks.engines.memory_cases import size_case
from tokenworks.facts.memory_constants import constants
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.shipped_models import model_shapes

OUTCOMES = predict(CASES, model_shapes(), ours())
HELD_OUT = [outcome for fold in held_out(CASES, model_shapes(), 5) for outcome in fold]


def median_error(outcomes: list[Outcome], reported: str, field: str) -> float:
    errors = [each.error(reported, getattr(each.sized, field)) for each in outcomes]
    return statistics.median(error for error in errors if error is not None)


@pytest.mark.parametrize("outcomes", [OUTCOMES, HELD_OUT], ids=["all", "held out"])
def test_weights_are_within_one_percent_of_logs(outcomes: list[Outcome]) -> None:
    assert median_error(outcomes, "weights_gib_per_gpu", "weights_gib_per_gpu") <= 0.01


@pytest.mark.parametrize("outcomes", [OUTCOMES, HELD_OUT], ids=["all", "held out"])
@pytest.mark.parametrize("figure", ["kv_cache_gib_per_gpu", "kv_cache_tokens"])
def test_the_kv_cache_is_within_three_percent_of_logs(outcomes: list[Outcome], figure: str) -> None:
    assert median_error(outcomes, figure, figure) <= 0.03


@pytest.mark.parametrize("outcomes", [OUTCOMES, HELD_OUT], ids=["all", "held out"])
def test_no_failed_start_is_called_fitting(outcomes: list[Outcome]) -> None:
    assert [
        each.case["id"] for each in outcomes if not each.started and each.verdict == "fits"
    ] == []


@pytest.mark.parametrize("outcomes", [OUTCOMES, HELD_OUT], ids=["all", "held out"])
def test_at_most_one_in_ten_good_starts_is_refused(outcomes: list[Outcome]) -> None:
    named = [each for each in outcomes if each.started and each.named]
    sound = [each for each in named if not each.contradicts_itself]
    refused = [each for each in sound if each.verdict != "fits"]
    assert len(sound) >= 68
    assert len(refused) <= len(sound) / 10


def test_one_log_reports_more_in_use_than_its_own_share_allows() -> None:
    faulty = [each.case["id"] for each in OUTCOMES if each.contradicts_itself]
    assert faulty == ["llmd-doc-gpt-oss-120b-tp1"]


def test_the_public_formulas_call_failed_starts_fitting() -> None:
    for formula in (weights_and_kv, aiconfigurator):
        outcomes = predict(CASES, model_shapes(), formula)
        assert sum(not each.started and each.verdict == "fits" for each in outcomes) >= 10


def test_every_case_with_a_model_and_a_gpu_has_a_verdict() -> None:
    assert [each.case["id"] for each in OUTCOMES if each.named and not each.sized.verdict] == []


def test_only_an_answer_without_a_verdict_has_an_error() -> None:
    for each in OUTCOMES:
        assert (each.sized.verdict is None) == (each.sized.error is not None), each.case["id"]
        for words in (each.sized.error, each.sized.note):
            assert words is None or words.endswith(".")


def test_the_shipped_constants_are_those_that_the_script_fits() -> None:
    assert fit(CASES) == constants()


def test_every_constant_names_its_evidence_and_range() -> None:
    for name, constant in constants().items():
        assert constant.source, name
        assert constant.range, name
        assert constant.lowest <= constant.value <= constant.highest, name
        assert constant.n >= len(constant.cases)


def test_gpt_oss_is_refused_at_a_share_that_leaves_no_room_for_its_kernels() -> None:
    failed = log("llmd-openai-gpt-oss-20b-tp1pp1dp1--8192-FAILED")
    assert size_case(failed, model_shapes()).verdict == "does_not_fit"
    assert size_case({**failed, "memory_fraction": 0.9}, model_shapes()).verdict == "fits"


def test_shipped_shapes_are_read_or_refused_with_a_field() -> None:
    understood = 0
    for name, record in model_shapes().items():
        if record.get("num_hidden_layers"):
            understood += not read_document(name, record).unknown
    assert understood >= 105


def test_scales_of_fp4_experts_are_counted_twice_while_sglang_held_them_twice() -> None:
    started = log("sglang-dsr1-nvfp4-b200-tp4-ep1")
    reported = started["reported"]["weights_gib_per_gpu"]
    at_once = size_case(started, model_shapes()).weights_gib_per_gpu
    freed = size_case({**started, "engine_version": "0.5.12"}, model_shapes()).weights_gib_per_gpu
    assert at_once == pytest.approx(reported, rel=0.02)
    assert freed is not None
    assert freed < 0.95 * reported
    hopper = {**started, "gpu": {"name": "NVIDIA H200"}}
    assert size_case(hopper, model_shapes()).weights_gib_per_gpu == freed


def test_before_its_second_engine_vllm_paid_nccl_out_of_its_share() -> None:
    case = {
        "id": "two",
        "engine": "vllm",
        "engine_version": "0.6.6",
        "model": "meta-llama/Llama-2-13b-chat-hf",
        "gpu": {"name": "NVIDIA A100-SXM4-40GB"},
        "gpu_count": 2,
        "tensor_parallel": 2,
    }
    one = {**case, "gpu_count": 1, "tensor_parallel": 1}

    def after(asked: dict[str, object]) -> str:
        return size_case(asked, model_shapes()).because.rpartition("; ")[2]

    assert after(case) == after(one)
    newer = {"engine_version": "0.8.5"}
    assert after({**case, **newer}) != after({**one, **newer})
    assert size_case(case, model_shapes()).verdict == "fits"
