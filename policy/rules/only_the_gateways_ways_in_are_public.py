"""Load balancers are internal, unless they are the gateway's, and none leads to an engine's port.

Seen alone, a load balancer is judged by its scheme and its role; seen with its listeners and their
target groups, also by the ports that it leads to. A tag does not make a gateway of an engine.
"""

from __future__ import annotations

from typing import Final

from policy.rule import Family, Rule, Severity
from policy.ways_in import is_way_in, way_in_faults

RULE: Final = Rule(
    code="E6",
    name="only-the-gateways-ways-in-are-public",
    description="A load balancer is internal or the gateway's, and leads to no engine's port.",
    family=Family.CLOUD,
    severity=Severity.CRITICAL,
    remediation=(
        "Set internal: true; where callers come from the internet, give the gateway the one public "
        "load balancer and tag it with its role."
    ),
    references=(
        "https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/how-elastic-load-balancing-works.html#load-balancer-scheme",
        "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-vpc-origins.html",
    ),
    applies=is_way_in,
    faults=way_in_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
