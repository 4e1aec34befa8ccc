"""What the parts of a cluster in AWS cost by the hour, beside its instances.

Prices of instances are in ``aws_instances.csv``. Prices here are list prices of us-east-1 without
what is counted by the gigabyte or the request; what no public page that we read states is not here,
and the plan says that it knows no price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

REGION: Final = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class HourlyPrice:
    """One price by the hour, and where and when it was so."""

    usd_per_hour: Decimal
    source: str


HOURS_PER_MONTH: Final = 720
"""As in every other cost of a plan."""
CONTROL_PLANE, NAT_GATEWAY, ENDPOINT, BALANCER, TRANSIT, KEY = (
    "control plane",
    "NAT gateway",
    "interface endpoint",
    "network load balancer",
    "transit gateway attachment",
    "KMS key",
)
PRICES: Final[Mapping[str, HourlyPrice]] = {
    CONTROL_PLANE: HourlyPrice(
        usd_per_hour=Decimal("0.10"),
        source="AWS containers blog, amazon-eks-extended-support-for-kubernetes-versions-pricing: "
        "standard support",
    ),
    NAT_GATEWAY: HourlyPrice(
        usd_per_hour=Decimal("0.045"),
        source="zacfukuda.com, aws-nat-gateway-vs-vpc-endpoint, 2026-06-01; gigabytes cost extra",
    ),
    ENDPOINT: HourlyPrice(
        usd_per_hour=Decimal("0.01"),
        source="zacfukuda.com, aws-nat-gateway-vs-vpc-endpoint, 2026-06-01: in each zone; "
        "gigabytes cost extra",
    ),
    BALANCER: HourlyPrice(
        usd_per_hour=Decimal("0.0225"),
        source="clustercost.com, network-load-balancer-pricing-2025; capacity units cost extra",
    ),
    TRANSIT: HourlyPrice(
        usd_per_hour=Decimal("0.05"),
        source="factualminds.com, amazon-vpc-pricing-endpoints-peering-transit-gateway, "
        "2026-06-13; gigabytes cost extra",
    ),
    KEY: HourlyPrice(
        usd_per_hour=Decimal(1) / HOURS_PER_MONTH,
        source="aws.amazon.com/kms/pricing: 1 USD a month; a rotated key costs it once more",
    ),
}
LUSTRE_GB_MONTH: Final[Mapping[int, HourlyPrice]] = {
    125: HourlyPrice(
        usd_per_hour=Decimal("0.145") / HOURS_PER_MONTH,
        source="c3x.dev, aws_fsx_lustre_file_system: 0.145 USD a GB-month at 125 MB/s/TiB",
    ),
}
"""Price of a gigabyte of FSx for Lustre by its MB/s for each TiB; of others none was found."""
