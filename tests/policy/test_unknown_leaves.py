"""One value that is not known hides no violation of another, wherever it stands."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from policy.resources import UNKNOWN
from tests.policy import policy_cases
from tests.policy.policy_cases import Case

# Rules whose resources say by themselves what they are. The others recognise a chart, a package or
# a neighbour by its name, and a name that is not known names nothing.
RULES = {"E5", "E7", "E9", "P3", "P4", "P5", "P6", "P7"}
CASES = [case for case in policy_cases.all_cases() if case.rule.code in RULES and case.finds]


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, (*path, key))
    elif value is not UNKNOWN:
        yield path


def without(properties: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(properties)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = UNKNOWN
    return changed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_violation_is_still_found_where_one_leaf_is_not_known(case: Case) -> None:
    violations = [one.key for one in case.judged(case.properties) if one.verdict == "fail"]
    for path in leaves(case.properties):
        found = {one.key for one in case.judged(without(case.properties, path))}
        for key in violations:
            assert any(key == other or (other and key.startswith(other)) for other in found), path
