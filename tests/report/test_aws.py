"""The AWS side of a plan as tables."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest
from rich.console import Console

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.planning import resolve_loaded
from tokenworks.report.aws import aws_tables
from tokenworks.report.explain import explain, keys
from tokenworks.show import to_data

ROOT = Path(__file__).resolve().parents[2]
SOON = datetime.date(2027, 7, 1)
LONG_BEFORE = datetime.date(2026, 11, 30)


@pytest.fixture(scope="module")
def plan() -> AwsPlan:
    stacks = ROOT / "stacks"
    found = resolve_loaded(load_environment("example-aws", stacks), read_lock(stacks)).aws
    assert found is not None
    return found


def shown(plan: AwsPlan, today: datetime.date) -> str:
    console = Console(width=240, record=True, file=io.StringIO())
    for table in aws_tables(plan, today):
        console.print(table)
    return console.export_text()


def test_everything_that_is_created_and_paid_for_is_shown(plan: AwsPlan) -> None:
    text = shown(plan, LONG_BEFORE)
    for subnet in plan.network.subnets:
        assert subnet.cidr in text
    for group in plan.node_groups:
        assert group.instance in text
    for add_on in plan.cluster.add_ons:
        assert add_on.version in text
    for part in plan.costs:
        assert part.part in text
    for quota in plan.quotas:
        assert quota.code in text
    assert "5.2141" in text


def test_a_part_without_a_price_is_unknown_and_not_free(plan: AwsPlan) -> None:
    lines = shown(plan, LONG_BEFORE).splitlines()
    (line,) = [one for one in lines if one.startswith("fsx-lustre, ")]
    assert "unknown" in line
    assert "0.00" not in line.partition("no public price")[0]


def test_the_end_of_support_is_shown_when_it_is_near(plan: AwsPlan) -> None:
    assert "warning: aws.kubernetes_version" in shown(plan, SOON)
    assert "warning:" not in shown(plan, LONG_BEFORE)


def test_every_decision_can_be_explained(plan: AwsPlan) -> None:
    stacks = ROOT / "stacks"
    whole = resolve_loaded(load_environment("example-aws", stacks), read_lock(stacks))
    decisions = [key for key in keys(whole) if key.startswith("aws.")]
    assert "aws.storage.file_system.capacity_gib" in decisions
    for key in decisions:
        assert all(reason.because for reason in explain(whole, key))


def test_a_plan_of_aws_is_plain_data(plan: AwsPlan) -> None:
    data = to_data(plan)
    assert data["cluster"]["support_ends"] == "2027-08-02"
    assert data["costs"][1]["usd_per_hour"] == "3.9696"
