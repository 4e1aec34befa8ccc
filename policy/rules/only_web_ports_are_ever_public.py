"""Security groups open nothing to the internet but the ports of a public gateway's load balancer.

SSH, the kubelet, stores and file systems have no business there. Ports of engines have a rule of
their own, and where ports of the web lead is judged at the load balancer behind them.
"""

from __future__ import annotations

from typing import Final

from policy.rule import Family, Rule, Severity
from policy.security_groups import holds_group_rules, other_port_faults

RULE: Final = Rule(
    code="E12",
    name="only-web-ports-are-ever-public",
    description="Security groups open no port but 80 and 443 to public addresses.",
    family=Family.CLOUD,
    severity=Severity.CRITICAL,
    remediation=(
        "Admit private ranges or another security group; machines are reached by Session Manager, "
        "which needs no rule, and the Kubernetes API by private addresses."
    ),
    references=(
        "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html#ec2-19",
        "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager.html",
    ),
    applies=holds_group_rules,
    faults=lambda resource, _: other_port_faults(resource),
    tolerates_unknown_at_preview=False,
)
