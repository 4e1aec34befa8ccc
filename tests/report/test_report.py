"""What people read: bars, tables, curves and chains of reasons."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from tokenworks.cli import app
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.errors import ConfigError, OperationError
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Plan
from tokenworks.report.curve import curve_svg, write_curves
from tokenworks.report.explain import explain, keys
from tokenworks.report.tables import bar, money, seconds
from tokenworks.show import plan_tables

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def plan_in(folder: Path, name: str) -> Plan:
    return resolve(load_environment(name, folder), read_lock(ROOT / "stacks"))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_in(ROOT / "tests" / "cases" / "environments" / "good", "with-traffic")


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    console = Console(width=240, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(plan_tables(plan))
    return captured.get()


def test_the_length_of_answers_that_a_tenant_gets_is_said_beside_its_budgets() -> None:
    console = Console(width=400, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(plan_tables(plan_in(ROOT / "stacks", "local")))
    lines = captured.get().splitlines()
    assert len([line for line in lines if "answers of 512 tokens where nothing" in line]) == 1
    (budget,) = [line for line in lines if "200,000 tokens" in line]
    assert "0 at most" in budget
    assert "requests without max_tokens get 512" in budget


@given(st.lists(st.floats(0, 1), max_size=6), st.integers(1, 200))
def test_a_bar_is_always_as_wide_as_asked(shares: list[float], width: int) -> None:
    assert len(bar([("x", share) for share in shares], width)) == width


def test_a_part_that_is_there_is_seen_and_one_that_is_not_is_not() -> None:
    assert bar([("A", 0.001), ("B", 0.5), ("C", 0.0)], 10) == "ABBBBB...."


def test_money_is_rounded_only_where_it_is_shown() -> None:
    assert money(Fraction(2_000, 3), "EUR") == "666.67 EUR"
    assert money(Fraction(1_234_567), "EUR", 0) == "1,234,567 EUR"


def test_long_times_are_minutes() -> None:
    assert (seconds(90), seconds(1_221)) == ("90 s", "20 min")


@pytest.mark.parametrize(
    "part",
    [
        "memory of each GPU",
        "llama: capacity",
        "qwen: beyond the peak",
        "5 x peak",
        "EFS elastic",
        "cost: three views of the same money",
        "cost: a month by tenant",
        "idle night",
        "qwen: self-hosted is cheaper than an API",
        "advice",
    ],
)
def test_a_plan_shows_every_part(text: str, part: str) -> None:
    assert part in text


def test_a_plan_without_traffic_shows_no_cost_of_tokens() -> None:
    console = Console(width=240, highlight=False, markup=False)
    with console.capture() as captured:
        plan = plan_in(ROOT / "tests" / "cases" / "environments" / "good", "one-model")
        console.print(plan_tables(plan))
    assert "three views" not in captured.get()
    assert "no request rate and no target" in captured.get()


def test_the_chain_of_replicas_reaches_down_to_memory_and_throughput(plan: Plan) -> None:
    chain = explain(plan, "models.qwen.replicas")
    assert chain[0].value == "4"
    reached = [reason.key for reason in chain]
    for key in ("capacity.peak_sequences", "capacity.rates", "memory", "max_batch_size"):
        assert f"models.qwen.{key}" in reached
    assert any(reason.key == "weights" for reason in chain)
    assert chain[0].depth == 0 < max(reason.depth for reason in chain)


def test_every_decision_of_a_plan_can_be_explained_by_its_key(plan: Plan) -> None:
    found = list(keys(plan))
    assert len(found) > 50
    for key in found:
        first = explain(plan, key)[0]
        assert first.key == key
        assert first.because


def test_what_was_told_before_is_named_and_not_told_again(plan: Plan) -> None:
    chain = explain(plan, "models.qwen.config_file")
    again = [reason for reason in chain if reason.because == "as above"]
    assert again
    assert [reason.key for reason in chain].count("KV cache") == 1
    for reason in again:
        earlier = [one.key for one in chain[: chain.index(reason)]]
        assert reason.key in earlier


def test_an_index_is_as_good_as_a_name(plan: Plan) -> None:
    assert explain(plan, "models[1].replicas") == explain(plan, "models.qwen.replicas")


@pytest.mark.parametrize("key", ["models.qwen.replica", "nothing", "models[7].replicas", "", "."])
def test_an_unknown_key_is_told_the_nearest(plan: Plan, key: str) -> None:
    with pytest.raises(ConfigError, match="is no value of this plan; use one such as"):
        explain(plan, key)


def test_a_misspelt_key_is_told_the_right_one(plan: Plan) -> None:
    with pytest.raises(ConfigError, match=r"such as models\.qwen\.replicas"):
        explain(plan, "models.qwen.replica")


def test_the_curve_is_a_picture_with_both_lines_and_the_crossover(plan: Plan) -> None:
    crossover = plan.cost.models[0].crossover
    assert crossover is not None
    root = ET.fromstring(curve_svg("llama", crossover, "USD"))  # noqa: S314
    lines = root.findall(f"{SVG}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [len(crossover.curve)] * 2
    texts = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert "break-even" in texts
    assert "this workload" in texts
    width, height = 760, 420
    for line in lines:
        for place in line.attrib["points"].split():
            x, y = map(float, place.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


def test_a_curve_without_a_crossover_marks_none(plan: Plan) -> None:
    crossover = plan.cost.models[1].crossover
    assert crossover is not None
    assert crossover.tokens_per_day.value is None
    assert ">break-even<" not in curve_svg("qwen", crossover, "USD")


def test_curves_are_written_one_for_each_model(plan: Plan, tmp_path: Path) -> None:
    written = write_curves(plan, tmp_path / "curves")
    assert [file.name for file in written] == ["llama-break-even.svg", "qwen-break-even.svg"]
    assert all(file.read_text("utf-8").startswith("<svg ") for file in written)


def test_a_plan_without_an_api_has_no_curve_and_says_what_is_missing(tmp_path: Path) -> None:
    plan = plan_in(ROOT / "stacks", "local")
    if any(model.crossover for model in plan.cost.models):
        pytest.fail("stacks/local.yaml has an API: choose another environment here")
    with pytest.raises(OperationError, match=r"give cost\.api"):
        write_curves(plan, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_explains_one_value_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = CliRunner().invoke(app, ["plan", "local", "--explain", "models.qwen3-32b.replicas"])
    assert shown.exit_code == 0
    assert shown.output.startswith("models.qwen3-32b.replicas = 2: asked for; peak")
    assert "gateway" not in shown.output


def test_the_command_explains_for_machines_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    arguments = ["plan", "local", "--explain", "models.qwen3-32b.replicas", "--json"]
    chain = json.loads(CliRunner().invoke(app, arguments).output)
    assert chain[0]["key"] == "models.qwen3-32b.replicas"
    assert chain[0]["depth"] == 0


def test_the_command_refuses_an_unknown_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = CliRunner().invoke(app, ["plan", "local", "--explain", "models.qwen3-32b.replica"])
    assert shown.exit_code == 1


def test_a_plan_is_json_with_its_advice_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    plan = json.loads(CliRunner().invoke(app, ["plan", "local", "--json"]).output)
    assert plan["advice"]
    assert plan["cost"]["month"]["because"]
