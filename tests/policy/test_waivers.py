from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import waivers
from policy.resources import Resource
from policy.rule import Finding, Severity, Verdict
from policy.rules import RULES
from policy.waivers import LONGEST_DAYS, Waivers, load_waivers, parse_waivers

TODAY = datetime.date(2026, 5, 4)
RULE = "images-are-pinned-by-digest"
POD = "kubernetes:core/v1:Pod"


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "rule": RULE,
        "resource": {"type": POD, "name": "p"},
        "reason": "The vendor publishes no digest.",
        "owner": "platform",
        "issue": "https://example.com/issues/1",
        "expires": "2026-06-01",
        **changes,
    }


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in entry().items() if key != name}


def parsed(*entries: object) -> Waivers:
    return parse_waivers(json.dumps({"waivers": entries}), RULES, TODAY)


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "rule": RULE,
        "severity": Severity.HIGH,
        "subject": f"{POD} p",
        "key": "spec.containers[0].image",
        "reason": "has no digest",
        "remedy": "add it",
        "verdict": Verdict.FAIL,
        **changes,
    }
    return Finding(**given)


def resource(name: str = "p", **more: str) -> Resource:
    return Resource.of(POD, name, {}, **more)  # type: ignore[arg-type]


def urn(stack: str) -> str:
    return f"urn:pulumi:{stack}::tokenworks::{POD}::p"


def test_a_waiver_says_who_lets_a_finding_through_until_when_and_why() -> None:
    assert parsed(entry()).findings == ()
    assert parsed(entry()).applied(finding()).waived == (
        "waived until 2026-06-01 by platform: The vendor publishes no digest. "
        "(https://example.com/issues/1)"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"rule": "only-the-gateway-has-a-load-balancer"},
        {"subject": f"{POD} p2"},
        {"subject": "kubernetes:core/v1:PodPatch p"},
    ],
)
def test_a_waiver_lets_nothing_else_through(other: dict[str, Any]) -> None:
    assert parsed(entry()).applied(finding(**other)).waived == ""


@pytest.mark.parametrize(
    ("narrower", "covered", "not_covered"),
    [
        ({"key": "spec.a"}, {"key": "spec.a"}, {"key": "spec.a.b"}),
        (
            {"resource": {"type": POD, "name": "p", "file": "a.yaml"}},
            {"origin": "a.yaml"},
            {"origin": "b.yaml"},
        ),
        (
            {"resource": {"type": POD, "name": "p", "environment": "prod-eu"}},
            {"urn": urn("prod-eu-serving")},
            {"urn": urn("prod-us-serving")},
        ),
    ],
)
def test_a_waiver_may_be_narrower(
    narrower: dict[str, Any], covered: dict[str, Any], not_covered: dict[str, Any]
) -> None:
    found = parsed(entry(**narrower))
    assert found.findings == ()
    assert found.applied(finding(**covered)).waived
    assert not found.applied(finding(**not_covered)).waived


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        *((without(name), f"{name}: is missing") for name in entry()),
        (entry(reason=""), "reason: is missing"),
        (entry(reason="  "), "reason: is no line of text"),
        (entry(owner="a\nb"), "owner: is no line of text"),
        (entry(owner=["a"]), "owner: is no line of text"),
        (entry(rule="no-such-rule"), "no-such-rule is no rule"),
        (entry(rule="everything-is-judged"), "is no rule that can be waived"),
        (entry(rule="waivers-are-exact-and-expire"), "is no rule that can be waived"),
        (entry(rule="*"), "has a wildcard"),
        (entry(key="spec.*"), "has a wildcard"),
        (entry(resource={"type": POD, "name": "*"}), "resource.name: * has a wildcard"),
        (entry(resource={"type": "kubernetes:?", "name": "p"}), "has a wildcard"),
        (entry(resource={"type": POD}), "resource.name: is missing"),
        (entry(resource={"type": POD, "name": ""}), "resource.name: is no text"),
        (entry(resource=POD), "resource: is no type and name"),
        (entry(resource={"type": POD, "name": "p", "urn": "x"}), "is no part of a resource"),
        (
            entry(resource={"type": POD, "name": "p", "file": "f", "environment": "e"}),
            "has both file and environment",
        ),
        (entry(issue="OPS-1"), "OPS-1 is no link"),
        (entry(until="2026-06-01"), "until: is no part of a waiver"),
        (entry(expires="next week"), "expires: is no date"),
        (entry(expires=20260601), "expires: is no date"),
        (entry(expires="2026-02-30"), "expires: is no date"),
        (entry(expires="2026-05-03"), "2026-05-03 is past, so that it waives nothing"),
        (entry(expires="2026-08-03"), "2026-08-03 is more than 90 days ahead"),
        ("all", "is no waiver"),
    ],
)
def test_a_waiver_that_is_not_exact_waives_nothing_and_is_refused(bad: object, says: str) -> None:
    found = parsed(bad)
    assert found.entries == ()
    assert any(says in str(one) for one in found.findings), found.findings
    assert {one.verdict for one in found.findings} == {Verdict.FAIL}
    assert found.applied(finding()).waived == ""


def test_a_bad_waiver_does_not_take_the_good_ones_with_it() -> None:
    found = parsed(entry(rule="x"), entry())
    assert (len(found.entries), len(found.findings)) == (1, 1)


@given(st.integers(-400, 400))
def test_a_waiver_holds_to_its_last_day_and_at_most_90_days(days: int) -> None:
    expires = TODAY + datetime.timedelta(days=days)
    assert bool(parsed(entry(expires=expires.isoformat())).entries) == (0 <= days <= LONGEST_DAYS)


def test_a_date_may_be_written_without_quotes() -> None:
    text = json.dumps({"waivers": [entry()]}).replace('"2026-06-01"', "2026-06-01")
    assert len(parse_waivers(text, RULES, TODAY).entries) == 1


@pytest.mark.parametrize(
    "second",
    [
        entry(),
        entry(key="spec.x"),
        entry(owner="somebody else"),
        entry(resource={"type": POD, "name": "p", "file": "a.yaml"}),
    ],
)
def test_two_waivers_for_one_finding_are_refused(second: dict[str, Any]) -> None:
    found = parsed(entry(), second)
    assert len(found.entries) == 1
    assert "repeats waivers[0]" in found.findings[0].reason


def test_two_waivers_for_different_keys_are_two_decisions() -> None:
    assert parsed(entry(key="a"), entry(key="b")).findings == ()


@pytest.mark.parametrize(
    "text",
    ["a: [", "waivers:", "waivers: {}", "[]", "waivers: []\nmore: 1", "waivers: []\n---\n{}"],
)
def test_a_file_that_is_no_list_of_waivers_is_refused(text: str) -> None:
    found = parse_waivers(text, RULES, TODAY)
    assert found.entries == ()
    assert len(found.findings) == 1


@pytest.mark.parametrize("text", ["", "# nothing\n", "waivers: []"])
def test_no_waivers_are_no_finding(text: str) -> None:
    assert parse_waivers(text, RULES, TODAY) == Waivers()


def test_a_file_that_is_missing_waives_nothing(tmp_path: Path) -> None:
    assert load_waivers(tmp_path / "waivers.yaml", RULES, TODAY) == Waivers()


def test_a_file_that_cannot_be_read_waives_nothing_and_is_refused(tmp_path: Path) -> None:
    (tmp_path / "waivers.yaml").write_bytes(b"\xff\xfe")
    (found,) = load_waivers(tmp_path / "waivers.yaml", RULES, TODAY).findings
    assert "cannot be read" in found.reason


def test_a_finding_about_a_waiver_names_the_line() -> None:
    text = "waivers:\n  - rule: x\n    owner: me\n  - rule: y\n"
    lines = {one.line for one in parse_waivers(text, RULES, TODAY).findings}
    assert lines == {2, 4}


def test_a_waiver_that_matches_nothing_is_refused_where_its_resource_was_judged() -> None:
    found = parsed(entry())
    (idle,) = found.unmatched([], [resource()], everything=False)
    assert "matches nothing that images-are-pinned-by-digest finds" in idle.reason
    assert found.unmatched([finding()], [resource()], everything=False) == ()
    assert found.unmatched([], [resource("other")], everything=False) == ()


def test_a_waiver_for_a_resource_that_is_gone_is_refused_once_everything_was_judged() -> None:
    assert len(parsed(entry()).unmatched([], [], everything=True)) == 1


def test_a_waiver_for_a_manifest_is_asked_for_where_that_manifest_is_judged() -> None:
    found = parsed(entry(resource={"type": POD, "name": "p", "file": "a.yaml"}))
    assert found.unmatched([], [resource()], everything=True) == ()
    assert len(found.unmatched([], [resource(origin="a.yaml")], everything=False)) == 1


def test_a_waiver_for_an_environment_is_asked_for_where_that_is_judged() -> None:
    found = parsed(entry(resource={"type": POD, "name": "p", "environment": "prod-eu"}))
    elsewhere = resource("q", urn=urn("prod-us-serving"))
    assert found.unmatched([], [elsewhere], everything=False) == ()
    there = resource("q", urn=urn("prod-eu-cluster"))
    assert len(found.unmatched([], [there], everything=False)) == 1


def test_the_waivers_of_this_checkout_are_in_order() -> None:
    assert waivers.in_force().findings == ()


def test_the_schema_for_editors_asks_for_what_the_check_asks_for() -> None:
    schema = json.loads((waivers.FILE.parent / "waivers.schema.json").read_text("utf-8"))
    item = schema["properties"]["waivers"]["items"]
    assert set(item["required"]) == set(entry())
    assert set(item["properties"]) == {*entry(), "key"}
    assert set(item["properties"]["resource"]["properties"]) == {
        "type",
        "name",
        "file",
        "environment",
    }
