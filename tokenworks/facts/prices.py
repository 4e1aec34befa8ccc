"""What GPU instances cost by the hour: list prices, each with region and date.

Source of ``ec2_prices.csv``: the on-demand Linux prices that aws/karpenter-provider-aws generates
from the AWS price list, ``pkg/providers/pricing/zz_generated.pricing_aws.go`` at 1d927085,
"generated at 2026-07-20T13:44:30Z for us-east-1". Discounts, savings plans, spot and capacity
blocks are not in it; prices that people pay stand in the environment.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

REGION = "us-east-1"
CURRENCY = "USD"
READ_ON = "2026-07-20"
SOURCE = "AWS on-demand list price, karpenter-provider-aws at 1d927085"


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one node costs for an hour, and where and when that was so."""

    instance: str
    per_hour: Decimal
    currency: str
    region: str
    date: str
    source: str


@cache
def list_prices() -> dict[str, Price]:
    """The list price of every instance type that has one, by instance type."""
    text = resources.files(__package__).joinpath("ec2_prices.csv").read_text("utf-8")
    return {
        row["instance"]: Price(
            instance=row["instance"],
            per_hour=Decimal(row["usd_per_hour"]),
            currency=CURRENCY,
            region=REGION,
            date=READ_ON,
            source=SOURCE,
        )
        for row in csv.DictReader(text.splitlines())
    }
