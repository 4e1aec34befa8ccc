"""GPU nodes have private addresses only, whoever would give them another.

Subnets are refused by themselves: nothing that is deployed here needs an address from one, since
load balancers and NAT gateways bring their own, and what starts there later would have it unseen.
"""

from __future__ import annotations

from typing import Final

from policy.public_addresses import is_concerned, public_address_faults
from policy.rule import Family, Rule, Severity

RULE: Final = Rule(
    code="E10",
    name="gpu-nodes-have-no-public-addresses",
    description="GPU nodes have no public addresses, of their own or of their subnets.",
    family=Family.CLOUD,
    severity=Severity.HIGH,
    remediation="Put nodes in private subnets without mapPublicIpOnLaunch, behind a NAT gateway.",
    references=(
        "https://docs.aws.amazon.com/eks/latest/best-practices/subnets.html",
        "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-public-ip.html",
    ),
    applies=is_concerned,
    faults=public_address_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
