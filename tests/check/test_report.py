from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from policy.rule import Severity, Verdict
from tests.check.findings import ENGINES, IMAGES, finding, judgement
from tokenworks.check.judge import not_judged
from tokenworks.check.report import as_json, as_table, as_text, in_order, summary

DOUBT = not_judged("x.yaml", reason="is no UTF-8 text", remedy="give text", origin="x.yaml")


def test_the_text_names_resource_rule_place_reason_and_remedy() -> None:
    found = finding(origin="stacks/local.yaml", line=18)
    rules = len(judgement().rules)
    assert as_text(judgement(found)) == (
        "kubernetes:core/v1:Pod n/p\n"
        "  fail           images-are-pinned-by-digest (high)  stacks/local.yaml:18\n"
        "    spec.containers[0].image: a:1 has a tag, which can be moved, and no digest\n"
        "    → append the digest\n"
        "\n"
        f"Refused: 1 finding; 2 items judged by {rules} rules.\n"
    )


def test_findings_stand_by_resource_and_by_file() -> None:
    text = as_text(
        judgement(
            finding(origin="a.yaml", line=1),
            finding(origin="b.yaml", line=2),
            finding(origin="a.yaml", line=3, key="k"),
        )
    )
    assert text.count("kubernetes:core/v1:Pod n/p\n") == 2
    assert text.index("a.yaml:3") < text.index("b.yaml:2")


def test_the_most_severe_comes_first_and_what_is_waived_last() -> None:
    waived = finding(key="w", severity=Severity.CRITICAL, waived="waived until then")
    warning = finding(key="x", verdict=Verdict.WARN)
    mild = finding(key="m", severity=Severity.MEDIUM)
    worst = finding(key="c", severity=Severity.CRITICAL)
    order = in_order(judgement(waived, warning, mild, worst))
    assert [one.key for one in order] == ["c", "m", "x", "w"]


def test_what_is_waived_says_so_and_why() -> None:
    text = as_text(judgement(finding(waived="waived until 2026-05-05 by me: Because.")))
    assert "  waived         images-are-pinned-by-digest" in text
    assert "(waived until 2026-05-05 by me: Because.)" in text


@pytest.mark.parametrize("name", ["x\n::error::y", "x\x1b[2J", "x\u202ey", "x\r\ny"])
def test_a_name_cannot_break_out_of_its_line(name: str) -> None:
    text = as_text(judgement(finding(subject=f"kubernetes:core/v1:Pod {name}", origin=name)))
    assert all(line.isprintable() for line in text.splitlines())
    assert not [line for line in text.splitlines() if line.startswith("::")]


def test_the_table_has_what_the_text_has() -> None:
    console = Console(file=io.StringIO(), width=240)
    console.print(as_table(judgement(finding(origin="a.yaml", line=4), finding(rule=ENGINES))))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for part in (IMAGES, ENGINES, "a.yaml:4", "Pod n/p", "which can be moved", "Refused: 2"):
        assert part in printed
    assert printed.count("Pod n/p") == 2  # once for each file


def test_markup_in_a_name_is_no_markup() -> None:
    console = Console(file=io.StringIO(), width=240, markup=False)
    console.print(as_table(judgement(finding(subject="Pod [red]x[/red]"))))
    assert "[red]x[/red]" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("findings", "judged", "says"),
    [
        ([], 2, "Good: 2 items judged by"),
        ([], 1, "Good: 1 item judged by"),
        ([], 0, "Could not tell: there was nothing to judge."),
        ([finding()], 2, "Refused: 1 finding; 2 items"),
        ([finding(), DOUBT], 2, "Refused: 2 findings; 2 items"),
        ([DOUBT], 2, "Could not tell: 1 finding; 2 items"),
        ([DOUBT], 0, "Could not tell: 1 finding; 0 items"),
        ([finding(waived="w")], 2, ", 1 waived."),
        ([finding(verdict=Verdict.WARN)], 2, ", 1 warning."),
        ([finding(), finding(waived="w")], 2, "Refused: 1 finding, 1 waived; 2 items"),
    ],
)
def test_the_last_line_sums_up(findings: list[object], judged: int, says: str) -> None:
    assert says in summary(judgement(*findings, judged=judged))  # type: ignore[arg-type]


def test_the_json_holds_all_that_other_programs_need() -> None:
    data = json.loads(as_json(judgement(finding(origin="r.txt", line=2), DOUBT)))
    assert data["outcome"] == "refused"
    assert data["judged"] == 2
    assert {"code", "name", "severity", "remediation"} <= set(data["rules"][0])
    first, second = data["findings"]
    assert (first["given"], first["origin"], first["line"]) == ("a:1", "r.txt", 2)
    assert second["verdict"] == "undeterminable"
