"""What people may write about prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from tokenworks.environment.section import Section
from tokenworks.environment.values import Currency, Day, Hours, Money, Name, Percent, Positive

Source = Annotated[str, Field(strict=True, min_length=1)]


class NodePrice(Section):
    """What one node of an instance type costs, and where that is written."""

    instance: Annotated[str, Field(strict=True)] = Field(description="Instance type.")
    per_hour: Positive = Field(
        description="Rent of one node for an hour, or depreciation and power."
    )
    source: Source = Field(description="Contract, offer or price list with its region.")
    date: Day = Field(description="Day on which the price was valid.")


class Api(Section):
    """A managed service that could serve the same requests."""

    name: Source = Field(description="Service and model.")
    input_per_million_tokens: Money = Field(description="Price of a million prompt tokens.")
    output_per_million_tokens: Money = Field(description="Price of a million output tokens.")
    platform_fee_per_month: Money = Field(
        default=Decimal(0),
        description="What it costs a month before the first token.",
        json_schema_extra={"default": 0},
    )
    source: Source = Field(description="Price list or contract.")
    date: Day = Field(description="Day on which the prices were valid.")


class TenantShare(Section):
    """The part of the tokens that one tenant takes."""

    tenant: Name = Field(description="A tenant of the gateway.")
    percent: Percent = Field(description="Its share of all tokens; together they are 100.")


class Cost(Section):
    """Prices, and what is paid beside nodes; left out, AWS list prices are taken where known."""

    currency: Currency = Field(default="USD", description="Currency of every sum of this section.")
    node_prices: tuple[NodePrice, ...] = Field(
        default=(), description="Your prices of nodes; the list price is taken for others."
    )
    people_per_month: Money | None = Field(
        default=None, description="What the people cost who run this, by the month."
    )
    storage_and_network_per_month: Money | None = Field(
        default=None, description="Storage, load balancers and bandwidth, by the month."
    )
    idle_hours_per_night: Hours | None = Field(
        default=None, description="Hours of each day without load, such as 8."
    )
    api: Api | None = Field(default=None, description="The managed service to compare with.")
    tenant_shares: tuple[TenantShare, ...] = Field(
        default=(), description="Shares of the tenants; left out, all are taken to be equal."
    )
