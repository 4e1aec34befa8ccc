"""Engine ports are open to private addresses and to other security groups, and to nobody else.

An engine has no authentication that covers every path, so whoever reaches its port uses it. A
public range is public however narrow it is: one that must be admitted needs a waiver, which is
the one allowlist.
"""

from __future__ import annotations

from typing import Final

from policy.rule import Family, Rule, Severity
from policy.security_groups import holds_ingress_rules, ingress_faults

RULE: Final = Rule(
    code="E5",
    name="engine-ports-admit-only-private-sources",
    description="Security groups and network ACLs open no engine port to public addresses.",
    family=Family.CLOUD,
    severity=Severity.CRITICAL,
    remediation=(
        "Admit the gateway's security group, or private ranges, to engine ports; a public range "
        "that must be admitted needs a waiver."
    ),
    references=(
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html",
        "https://docs.aws.amazon.com/vpc/latest/userguide/security-group-rules.html",
        "https://docs.aws.amazon.com/vpc/latest/userguide/nacl-rules.html",
    ),
    applies=holds_ingress_rules,
    faults=lambda resource, _: ingress_faults(resource),
    tolerates_unknown_at_preview=False,
)
