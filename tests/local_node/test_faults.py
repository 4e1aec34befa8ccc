"""Each known fault that a cluster can show has a test on the real node, or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.local.checkout import ROOT

CASES: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(
    (ROOT / "tests" / "cases" / "node" / "faults.yaml").read_text("utf-8")
)


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["fault"])
def test_a_fault_is_shown_on_the_real_node_or_has_a_reason(case: dict[str, Any]) -> None:
    assert case.keys() <= {"fault", "reports", "seen", "tests", "aside"}
    tests = case.get("tests", [])
    assert any(named.startswith("tests/node/") for named in tests) or len(case["aside"]) > 40
    for named in tests:
        file, _, test = named.partition("::")
        assert test.startswith("test_"), named
        assert test in functions(file), f"{named} is not there"


def test_each_fault_stands_there_once_with_where_it_was_reported() -> None:
    assert len({case["fault"] for case in CASES}) == len(CASES)
    for case in CASES:
        assert case["reports"]
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one) for one in case["reports"])
