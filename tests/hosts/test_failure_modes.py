"""Each known failure of GPU hosts has a test that prevents or catches it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
CASES = YAML(typ="safe", pure=True).load(
    (Path(__file__).parent / "cases" / "failure-modes.yaml").read_text("utf-8")
)


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@cache
def texts(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["failure"])
def test_a_failure_that_others_had_has_its_tests(case: dict[str, Any]) -> None:
    assert case["source"]
    assert case["tests"]
    for named in case["tests"]:
        file, _, test = named.partition("::")
        function, _, one = test.partition("[")
        assert function in functions(file), f"{named} is not there"
        assert not one or one.removesuffix("]") in texts(file), f"{named} has no such case"


def test_no_failure_stands_there_twice() -> None:
    assert len({case["failure"] for case in CASES}) == len(CASES)
