"""Security groups whose rules are resources of their own, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2, vpc

from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import FirewallRule, NetworkPlan

ANY_PROTOCOL = "-1"


@dataclass(frozen=True, kw_only=True)
class FirewallArgs:
    """The network as planned, the name under which it is shown, and its id."""

    title: str
    plan: NetworkPlan
    vpc_id: pulumi.Input[str]
    tags: Tags


class Firewall(Owned):
    """The security groups of a network; ``group_ids`` is by the plan's names of groups."""

    group_ids: dict[str, pulumi.Output[str]]

    def __init__(
        self, name: str, args: FirewallArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Firewall", name, args.tags, opts)
        self._args = args
        self.group_ids = {
            group: self._group(group, because).id
            for group, because in args.plan.security_groups.items()
        }
        self._rules(args.plan.rules)
        self.register_outputs({"group_ids": self.group_ids})

    def _group(self, group: str, because: str) -> ec2.SecurityGroup:
        name = f"{self._args.title}-{group}"
        return ec2.SecurityGroup(
            f"{group}-group",
            name=name,
            description=because,
            vpc_id=self._args.vpc_id,
            # Rules that others add, and that refer to other groups, would keep it from going.
            revoke_rules_on_delete=True,
            tags=self.named(name),
            # A reworded description would replace the group, which cannot go while it is in use.
            opts=self.child(ignore_changes=["description"]),
        )

    def _rules(self, rules: Sequence[FirewallRule]) -> None:
        for rule in rules:
            make = (
                vpc.SecurityGroupIngressRule
                if rule.direction == "ingress"
                else vpc.SecurityGroupEgressRule
            )
            make(
                rule_name(rule),
                security_group_id=self.group_ids[rule.group],
                ip_protocol=rule.protocol,
                description=rule.because,
                tags=self.named(rule_name(rule)),
                opts=self.child(),
                **_ports(rule),
                **self._peer(rule.peer),
            )

    def _peer(self, peer: str) -> dict[str, Any]:
        if "/" in peer:
            return {"cidr_ipv4": peer}
        return {"referenced_security_group_id": self.group_ids[peer]}


def rule_name(rule: FirewallRule) -> str:
    """A name by what the rule says, so that a rule added in between renames no other."""
    ports = "all" if rule.ports is None else "-".join(map(str, dict.fromkeys(rule.ports)))
    peer = rule.peer.replace("/", "_")
    protocol = "any" if rule.protocol == ANY_PROTOCOL else rule.protocol
    return f"{rule.group}-{rule.direction}-{protocol}-{ports}-{peer}"


def _ports(rule: FirewallRule) -> dict[str, Any]:
    return {} if rule.ports is None else {"from_port": rule.ports[0], "to_port": rule.ports[1]}
