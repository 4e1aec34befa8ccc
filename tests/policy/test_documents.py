from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policy import documents
from policy.documents import DEEPEST, Document, Flaw, read_documents

# PyYAML's own writer does not bring back what YAML 1.1 calls line breaks.
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def data(text: str) -> list[Any]:
    found = list(read_documents(text))
    assert all(isinstance(one, Document) for one in found), found
    return [one.data for one in found if isinstance(one, Document)]


def flaw(text: str) -> Flaw:
    (found,) = read_documents(text)
    assert isinstance(found, Flaw), found
    return found


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@given(JSON)
def test_json_is_read_as_json_and_as_yaml(value: Any) -> None:
    document = {"value": value}
    assert data(json.dumps(document)) == [document]
    assert data(yaml.safe_dump(document, allow_unicode=True)) == [document]


@given(st.text(max_size=200))
def test_any_text_is_documents_or_flaws_and_never_an_error(text: str) -> None:
    for one in read_documents(text):
        assert isinstance(one, Document | Flaw)
        assert one.line is None or one.line >= 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0o17500", 8000),
        ("017500", 8000),
        ("0x1f40", 8000),
        ("8e3", 8000.0),
        ("8_000", 8000),
        ("8000.0", 8000.0),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("2024-01-31", "2024-01-31"),
        ("22:22", "22:22"),
        ('"8000"', "8000"),
        ("=", "="),
    ],
)
def test_scalars_mean_what_they_mean_to_kubernetes(written: str, meant: object) -> None:
    assert data(f"value: {written}") == [{"value": meant}]


def test_merged_keys_are_those_of_the_anchor_unless_written_again() -> None:
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: {<<: [{x: 7}, *b]}\n"
    assert data(text)[0]["one"] == {"x": 1, "y": 3}
    assert data(text)[0]["two"] == {"x": 7, "y": 2}


def test_empty_documents_are_left_out() -> None:
    assert data("---\n# only a remark\n---\na: 1\n---\n") == [{"a": 1}]


def test_a_byte_order_mark_is_no_text() -> None:
    assert data("\ufeffa: 1") == [{"a": 1}]


def test_keys_are_text_as_in_json() -> None:
    assert data("{1: a, yes: b, ~: c}") == [{"1": "a", "true": "b", "null": "c"}]


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", "x: {a: 1, a: 2}", '{"a": 1,\n"a": 2}'])
def test_a_key_that_is_written_twice_is_refused(text: str) -> None:
    assert "has the key a twice" in flaw(text).reason


def test_a_document_that_is_refused_hides_none_of_the_others() -> None:
    first, second, third = read_documents("a: 1\n---\nb: 1\nb: 2\n---\nc: 3\n")
    assert isinstance(first, Document)
    assert isinstance(second, Flaw)
    assert isinstance(third, Document)
    assert (first.data, second.line, third.data) == ({"a": 1}, 4, {"c": 3})


def test_what_was_read_before_text_that_is_no_yaml_is_kept() -> None:
    first, second = read_documents("a: 1\n---\nb: [\n")
    assert isinstance(first, Document)
    assert isinstance(second, Flaw)
    assert second.reason.startswith("is not YAML (")


def test_aliases_may_not_multiply_without_end() -> None:
    assert "values once its aliases are written out" in flaw(bomb(12)).reason


def test_a_few_aliases_are_no_bomb() -> None:
    assert len(data(bomb(3))[0]["a2"]) == 10


def test_after_a_bomb_nothing_more_is_read() -> None:
    assert len(list(read_documents(f"{bomb(12)}\n---\na: 1\n"))) == 1


def test_json_has_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_VALUES", 10)
    assert "holds more than 10 values" in flaw(json.dumps(list(range(20)))).reason


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
@pytest.mark.parametrize("levels", [DEEPEST + 5, 5_000, 200_000])
def test_deep_nesting_is_refused_and_breaks_nothing(opening: str, levels: int) -> None:
    found = flaw(opening * levels)
    assert "nest" in found.reason or "not YAML" in found.reason


@pytest.mark.parametrize("levels", [DEEPEST + 5, 200_000])
def test_deep_json_is_refused_and_breaks_nothing(levels: int) -> None:
    assert "nests deeper" in flaw("[" * levels + "]" * levels).reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]", "refers to itself"),
        ("? [a, b]\n: c", "key that is no text"),
        ("a: !!python/object/apply:os.system [x]", "whose meaning nobody here knows"),
        ("a: !secret x", "whose meaning nobody here knows"),
        ("a: {<<: text}", "merges what is no mapping"),
        ("a: " + "1" * 5_000, "a number that nobody can read"),
        ("a: \x00", "is not YAML"),
        ("a: \ud800", "is not YAML"),
        ("\tkey: x\n  - y", "is not YAML"),
    ],
)
def test_what_nobody_can_judge_is_refused_with_its_reason(text: str, reason: str) -> None:
    assert reason in flaw(text).reason


def test_the_line_of_a_key_is_that_of_its_nearest_written_parent() -> None:
    spec = "spec:\n  list:\n    - x: 1\n      y.z/k: 2\n    - x: 3\n"
    _, second = read_documents(f"# a remark\nkind: A\n---\nkind: B\n{spec}")
    assert isinstance(second, Document)
    lines = {
        "": 4,
        "kind": 4,
        "spec": 5,
        "spec.list[0].x": 7,
        'spec.list[0]["y.z/k"]': 8,
        "spec.list[1]": 9,
        "spec.list[1].x.nothing": 9,
        "spec.list[7].x": 6,
        "elsewhere": 4,
    }
    assert {path: second.line_of(path) for path in lines} == lines


def test_the_lines_of_json_are_found_too() -> None:
    (document,) = read_documents('\n{\n  "spec": {\n    "type": "NodePort"\n  }\n}\n')
    assert isinstance(document, Document)
    assert (document.line, document.line_of("spec.type")) == (2, 4)


def test_json_with_tabs_has_at_least_the_line_where_it_begins() -> None:
    (document,) = read_documents('{\n\t"spec":\t{\n\t\t"type": "NodePort"\n\t}\n}\n')
    assert isinstance(document, Document)
    assert document.line_of("spec.type") in {1, 3}
