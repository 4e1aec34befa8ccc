"""What a cluster costs by the hour: known prices add up, and what is unknown is said to be."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tests.plan.aws.conftest import ROOT, Changed, planned
from tokenworks.plan.aws.costs import BLOCK, known_per_hour
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.plan.types import Plan


def prices(plan: AwsPlan) -> dict[str, Decimal | None]:
    return {part.part: part.usd_per_hour for part in plan.costs}


def test_every_node_group_has_a_line(example: AwsPlan, other: AwsPlan) -> None:
    for plan in (example, other):
        groups = {f"{g.pool} in {g.zone_id}: {g.instance}" for g in plan.node_groups}
        assert groups <= set(prices(plan))


def test_a_block_was_paid_ahead(example: AwsPlan) -> None:
    (block,) = [part for part in example.costs if part.source == BLOCK]
    assert block.usd_per_hour is None
    assert block.count == 2


STACKS = ROOT / "stacks"


def with_prices(folder: Path, currency: str, *instances: str) -> Plan:
    """The example with prices of its own."""
    for name in ("weights", "example-hosts"):
        (folder / name).symlink_to(STACKS / name)
    given = [
        f"    - {{instance: {name}, per_hour: 20, source: our contract, date: 2026-11-01}}\n"
        for name in instances
    ]
    cost = f"cost:\n  currency: {currency}\n  node_prices:\n{''.join(given)}"
    text = (STACKS / "example-aws.yaml").read_text("utf-8")
    (folder / "example-aws.yaml").write_text(text + cost)
    return planned("example-aws", folder)


def own_price_is_missed(plan: Plan) -> bool:
    return any("which only cost.node_prices can say" in note for note in plan.notes)


def test_a_block_is_not_had_at_the_list_price_on_demand() -> None:
    plan = planned("example-aws", STACKS)
    assert plan.cost.unpriced == ("p5.48xlarge",)
    assert plan.cost.month is None
    assert own_price_is_missed(plan)


def test_a_block_costs_what_is_given(tmp_path: Path) -> None:
    plan = with_prices(tmp_path, "USD", "p5.48xlarge")
    assert [str(node.per_node_hour) for node in plan.cost.nodes] == ["20", "1.3232"]
    assert not own_price_is_missed(plan)


def test_a_block_brings_no_list_price_into_another_currency(tmp_path: Path) -> None:
    assert with_prices(tmp_path, "EUR", "g6.4xlarge").cost.unpriced == ("p5.48xlarge",)


def test_known_prices_add_up_and_unknown_ones_are_not_nothing(example: AwsPlan) -> None:
    expected = Decimal("3.9696") + 2 * Decimal("0.4032") + Decimal("0.10")
    expected += 26 * Decimal("0.01") + Decimal("0.0225") + Decimal("0.05")
    assert abs(known_per_hour(example.costs) - expected - Decimal(4) / 720) < Decimal("1e-20")
    assert "fsx-lustre, 7200 GiB" in [p.part for p in example.costs if p.usd_per_hour is None]


def test_nat_is_paid_for_in_each_zone(example: AwsPlan, other: AwsPlan) -> None:
    assert prices(other)["NAT gateways"] == 3 * Decimal("0.045")
    assert "NAT gateways" not in prices(example)


def test_prices_of_another_region_say_whose_they_are(example: AwsPlan, other: AwsPlan) -> None:
    assert not [part for part in example.costs if "price of us-east-1" in part.source]
    known = [part for part in other.costs if part.usd_per_hour is not None]
    assert all("(price of us-east-1)" in part.source for part in known)


def test_lustre_has_a_price_at_the_rate_whose_price_is_known(
    changed: Changed, example: AwsPlan
) -> None:
    plan = changed(
        ("{file_system: efs}", "{file_system: fsx-lustre}"),
        ("read_mib_per_second: 1000", "read_mib_per_second: 10"),
        ("    host_lock: ubuntu-24.04-amd64-580\n", "    release_version: 1.35.6-20260714\n"),
        ("  builder_base_image: ami-0123456789abcdef0\n", ""),
    )
    (line,) = [part for part in plan.costs if part.part == "fsx-lustre, 1200 GiB"]
    assert line.usd_per_hour is not None
    assert round(line.usd_per_hour * 720, 2) == 174
    (other,) = [part for part in example.costs if part.part.startswith("fsx-lustre")]
    assert other.usd_per_hour is None


def test_a_price_of_ones_own_is_taken_first(changed: Changed) -> None:
    own = (
        "cost:\n  node_prices:\n"
        "    - {instance: p5.48xlarge, per_hour: 20, source: our contract, date: 2026-11-01}\n"
        "weights_storage:"
    )
    plan = changed(("weights_storage:", own))
    (line,) = [part for part in plan.costs if part.part.startswith("h100 in")]
    assert line.usd_per_hour == 80
    assert line.source == "our contract, 2026-11-01"
