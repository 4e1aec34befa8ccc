"""Waivers in a running program: let through, and said."""

from __future__ import annotations

import datetime
import json

import pytest

from policy.rules import RULES
from policy.waivers import parse_waivers
from tests.check.test_guard import BAD, SERVICE, args, run
from tokenworks.check import guard


def waive(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entries = [
        {
            "rule": rule,
            "resource": {"type": SERVICE, "name": name},
            "reason": "Because.",
            "owner": "me",
            "issue": "https://example.com/1",
            "expires": "2026-06-01",
        }
        for rule in (one.name for one in RULES)
    ]
    text = json.dumps({"waivers": entries})
    waivers = parse_waivers(text, RULES, datetime.date(2026, 5, 4))
    monkeypatch.setattr(guard, "in_force", lambda: waivers)


@pytest.mark.parametrize("preview", [True, False])
def test_what_is_waived_is_created_and_said(monkeypatch: pytest.MonkeyPatch, preview: bool) -> None:
    waive(monkeypatch, "llama")
    logged = run(lambda one: one.judge_resource(args(BAD)), preview=preview)
    assert logged
    assert all("It is waived until 2026-06-01 by me: Because." in line for line in logged)


@pytest.mark.parametrize("preview", [True, False])
def test_a_waiver_for_another_resource_lets_nothing_through(
    monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    waive(monkeypatch, "other")
    *_, last = run(lambda one: one.judge_resource(args(BAD)), preview=preview)
    assert last.startswith("raised: ")
