"""`tokenworks size`: one answer for each case, in order, for people and machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.memory_cases import CASES, FILE, H100
from tokenworks.cli import app
from tokenworks.engines.memory_cases import size_case
from tokenworks.engines.remedies import remedies
from tokenworks.facts.shipped_models import model_shapes

KEYS = {"id", "weights_gib_per_gpu", "kv_cache_gib_per_gpu", "kv_cache_tokens", "verdict"}


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["size", *arguments])
    return result.exit_code, result.output


def test_every_case_is_answered_once_and_in_order() -> None:
    code, output = run("--cases", str(FILE), "--json")
    answers = json.loads(output)
    assert code == 0
    assert [answer["id"] for answer in answers] == [case["id"] for case in CASES]
    for answer in answers:
        assert set(answer) - {"error", "note"} == KEYS


def test_models_of_the_user_replace_those_shipped(tmp_path: Path) -> None:
    cases, models = tmp_path / "cases.json", tmp_path / "models.json"
    cases.write_text(json.dumps([{**H100, "model": "mine"}]))
    models.write_text(json.dumps({"mine": model_shapes()[H100["model"]]}))
    _, output = run("--cases", str(cases), "--models", str(models), "--json")
    assert json.loads(output)[0]["verdict"] == "fits"


def test_people_get_a_table_with_what_would_fit(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps([{**H100, "max_model_len": 600_000}]))
    code, output = run("--cases", str(cases))
    assert code == 0
    assert "kv_too_small" in output
    assert "max_model_len of at most" in output


def test_one_bad_case_costs_no_other_its_answer(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    bad = [None, 7, {}, {**H100, "gpu": [1]}, {**H100, "model": {"a": 1}}, {**H100, "engine": []}]
    cases.write_text(json.dumps([*bad, H100]))
    code, output = run("--cases", str(cases), "--json")
    answers = json.loads(output)
    assert code == 0
    assert [answer["verdict"] for answer in answers] == [None] * len(bad) + ["fits"]
    assert all("error" in answer for answer in answers[:-1])


def test_models_that_the_user_leaves_out_are_those_that_are_shipped(tmp_path: Path) -> None:
    cases, models = tmp_path / "cases.json", tmp_path / "models.json"
    cases.write_text(json.dumps([H100]))
    models.write_text(json.dumps({"mine": model_shapes()[H100["model"]]}))
    _, output = run("--cases", str(cases), "--models", str(models), "--json")
    assert json.loads(output)[0]["verdict"] == "fits"


def test_a_table_is_printed_of_cards_that_leave_their_size_open(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    a100 = {**H100, "gpu": {"name": "NVIDIA A100"}, "model": "Qwen/Qwen2.5-72B-Instruct"}
    cases.write_text(json.dumps([a100]))
    code, output = run("--cases", str(cases))
    assert code == 0
    assert "does_not_fit" in output


@pytest.mark.parametrize("text", ["{}", "nonsense", "3"])
def test_a_file_without_cases_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    code, output = run("--cases", str(file), "--json")
    assert code == 1
    assert "list of cases" in output


def test_each_remedy_is_one_that_the_law_calls_fitting() -> None:
    case = {**H100, "max_model_len": 600_000}
    ways = remedies(case, size_case(case, model_shapes()), model_shapes())
    length = next(way for way in ways if way.startswith("max_model_len"))
    longest = int(length.split()[-1])
    fits = size_case({**case, "max_model_len": longest}, model_shapes())
    beyond = size_case({**case, "max_model_len": longest + 1024}, model_shapes())
    assert (fits.verdict, beyond.verdict) == ("fits", "kv_too_small")
    assert "kv_cache_dtype fp8" in ways
    assert "2 GPUs" in ways


def test_what_fits_needs_no_remedy() -> None:
    assert remedies(H100, size_case(H100, model_shapes()), model_shapes()) == ()
