"""Service quotas that an environment can run into, by their codes.

Codes and names of EC2's: answers of Service Quotas in docs.aws.amazon.com/cli,
cli_service-quotas_code_examples (L-1216C47A), and independent public repositories that ask for the
others, in three of which at least each stands beside its name (of FSx's only one); read 2026-11-30.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Quota:
    """One service quota; ``unit`` is what it counts."""

    service: str
    code: str
    name: str
    unit: str


P_INSTANCES: Final = Quota(
    service="ec2", code="L-417A185B", name="Running On-Demand P instances", unit="vCPU"
)
G_INSTANCES: Final = Quota(
    service="ec2", code="L-DB2E81BA", name="Running On-Demand G and VT instances", unit="vCPU"
)
STANDARD_INSTANCES: Final = Quota(
    service="ec2",
    code="L-1216C47A",
    name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    unit="vCPU",
)
ADDRESSES: Final = Quota(
    service="ec2", code="L-0263D0A3", name="EC2-VPC Elastic IPs", unit="address"
)
NETWORKS: Final = Quota(service="vpc", code="L-F678F1CE", name="VPCs per Region", unit="VPC")
NAT_GATEWAYS: Final = Quota(
    service="vpc",
    code="L-FE5A380F",
    name="NAT gateways per Availability Zone",
    unit="gateway in a zone",
)
ENDPOINTS: Final = Quota(
    service="vpc", code="L-29B6F2EB", name="Interface VPC endpoints per VPC", unit="endpoint"
)
BALANCERS: Final = Quota(
    service="elasticloadbalancing",
    code="L-69A177A2",
    name="Network Load Balancers per Region",
    unit="load balancer",
)
CLUSTERS: Final = Quota(service="eks", code="L-1194D53C", name="Clusters", unit="cluster")
LUSTRE: Final = Quota(
    service="fsx", code="L-FD6F2F22", name="Lustre Persistent_2 file systems", unit="file system"
)
