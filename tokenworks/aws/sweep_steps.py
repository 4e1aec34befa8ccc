"""Carrying out a sweep: each deletion in order, with waits that end, and every failure told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.aws.client import AwsError, Cloud
from tokenworks.aws.ownership import Kind
from tokenworks.aws.sweep import Step

PATIENCE_SECONDS: Final = 300.0
"""How long AWS may take to let go of what a deleted load balancer or interface held."""
_POLL_SECONDS: Final = 5.0

# Each service's API reference: what it answers where a thing is gone already, or not free yet.
_GONE: Final = frozenset(
    {
        "InvalidGroup.NotFound",
        "InvalidNetworkInterfaceID.NotFound",
        "InvalidSecurityGroupRuleId.NotFound",
        "InvalidVolume.NotFound",
        "LoadBalancerNotFound",
        "TargetGroupNotFound",
    }
)
_NOT_YET: Final = frozenset({"DependencyViolation", "InvalidParameterValue", "ResourceInUse"})


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One deletion that failed, with what AWS said."""

    step: Step
    reason: str


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What was deleted, and what was not."""

    done: tuple[Step, ...]
    failed: tuple[Failure, ...]


def carry_out(
    cloud: Cloud,
    steps: Iterable[Step],
    say: Callable[[str], None],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Swept:
    """Delete each in order; one failure stops nothing else, and is returned."""
    done: list[Step] = []
    failed: list[Failure] = []
    for step in steps:
        try:
            # What is held by something that could not be deleted is not let go of by waiting.
            _delete(cloud, step, 0.0 if failed else patience_seconds)
        except AwsError as error:
            failed.append(Failure(step=step, reason=error.reason))
            say(f"{step.kind} {step.id}: not deleted: {error.reason}")
        else:
            done.append(step)
            say(f"{step.kind} {step.id}: deleted")
    return Swept(done=tuple(done), failed=tuple(failed))


def _delete(cloud: Cloud, step: Step, patience_seconds: float) -> None:
    """Delete one, again until it is free or patience ends; what is gone already is deleted."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            _CALLS[step.kind](cloud, step)
        except AwsError as error:
            if error.code in _GONE:
                return
            if error.code not in _NOT_YET or time.monotonic() >= deadline:
                raise
            time.sleep(min(_POLL_SECONDS, patience_seconds))
        else:
            return


def _balancer(cloud: Cloud, step: Step) -> None:
    cloud.call("elbv2", "delete_load_balancer", LoadBalancerArn=step.id)


def _classic_balancer(cloud: Cloud, step: Step) -> None:
    cloud.call("elb", "delete_load_balancer", LoadBalancerName=step.id)


def _target_group(cloud: Cloud, step: Step) -> None:
    cloud.call("elbv2", "delete_target_group", TargetGroupArn=step.id)


def _interface(cloud: Cloud, step: Step) -> None:
    cloud.call("ec2", "delete_network_interface", NetworkInterfaceId=step.id)


def _rule(cloud: Cloud, step: Step) -> None:
    side = "revoke_security_group_egress" if step.name == "egress" else _INGRESS
    cloud.call("ec2", side, GroupId=step.part_of[0], SecurityGroupRuleIds=[step.id])


def _group(cloud: Cloud, step: Step) -> None:
    cloud.call("ec2", "delete_security_group", GroupId=step.id)


def _volume(cloud: Cloud, step: Step) -> None:
    cloud.call("ec2", "delete_volume", VolumeId=step.id)


_INGRESS: Final = "revoke_security_group_ingress"
_CALLS: Final[dict[Kind, Callable[[Cloud, Step], Any]]] = {
    "load balancer": _balancer,
    "classic load balancer": _classic_balancer,
    "target group": _target_group,
    "network interface": _interface,
    "firewall rule": _rule,
    "security group": _group,
    "volume": _volume,
}
