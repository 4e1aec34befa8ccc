"""Waivers in the pack: what is let through is still shown, and nothing else is let through."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from google.protobuf import struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy.policy import EnforcementLevel, _PolicyAnalyzerServicer

from policy import pack
from policy.rules import RULES
from policy.waivers import parse_waivers

TODAY = datetime.date(2026, 5, 4)
POD = "kubernetes:core/v1:Pod"
PROPERTIES = {"spec": {"containers": [{"name": "a", "image": "nginx:1"}]}}


@pytest.fixture(autouse=True)
def waived(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "rule": "images-are-pinned-by-digest",
        "resource": {"type": POD, "name": "p", "environment": "prod"},
        "reason": "Because.",
        "owner": "me",
        "issue": "https://example.com/1",
        "expires": "2026-06-01",
    }
    waivers = parse_waivers(json.dumps({"waivers": [entry]}), RULES, TODAY)
    assert waivers.findings == ()
    monkeypatch.setattr(pack, "in_force", lambda: waivers)


def said(name: str, stack: str) -> list[tuple[Any, str]]:
    struct = struct_pb2.Struct()
    struct.update(PROPERTIES)
    urn = f"urn:pulumi:{stack}::tokenworks::{POD}::{name}"
    request = analyzer_pb2.AnalyzeRequest(type=POD, properties=struct, urn=urn, name=name)
    level = EnforcementLevel.MANDATORY
    servicer = _PolicyAnalyzerServicer("tokenworks", "0.1.0", pack.policies(), level)
    answer = servicer.Analyze(request, None)  # type: ignore[no-untyped-call]
    images = [one for one in answer.diagnostics if "images-are-pinned-by-digest" in one.message]
    return [(one.enforcementLevel, one.message) for one in images]


def test_what_is_waived_advises_and_says_why() -> None:
    ((level, message),) = said("p", "prod-serving")
    assert level == analyzer_pb2.ADVISORY
    assert "It is waived until 2026-06-01 by me: Because." in message


@pytest.mark.parametrize(("name", "stack"), [("p", "test-serving"), ("q", "prod-serving")])
def test_nothing_else_is_let_through(name: str, stack: str) -> None:
    ((level, _),) = said(name, stack)
    assert level == analyzer_pb2.MANDATORY
