"""Every public report that the design answers has its test, or its reason to have none."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.components.aws.graph import ROOT

REPORTS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "cases" / "aws" / "reports.yaml").read_text("utf-8")
)


def test_all_forty_are_there_once() -> None:
    assert len(REPORTS) == len({one["report"] for one in REPORTS}) == 40


@pytest.mark.parametrize("report", REPORTS, ids=[one["report"] for one in REPORTS])
def test_a_report_names_a_test_of_it_or_says_why_there_is_none(report: dict[str, Any]) -> None:
    assert len({"shown by", "why not"} & set(report)) == 1
    if "why not" in report:
        return
    file, _, name = report["shown by"].partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")
