"""Take an AWS environment down in reverse order, sweep between programs, prove what is left."""

from __future__ import annotations

import time
from typing import Any, Final

from tokenworks.aws.buckets import empty_bucket
from tokenworks.aws.client import Cloud
from tokenworks.aws.inventory import cluster_exists
from tokenworks.aws.leftovers import Left, Tagged, read_tagged, sort_out
from tokenworks.aws.sweep import Kept
from tokenworks.errors import OperationError
from tokenworks.operations.aws_sweep import sweep_until_clean
from tokenworks.operations.session import Session
from tokenworks.workspace import PROGRAMS, split_stack, stack_name

DATA_PROGRAMS: Final = ("network", "storage")
"""What stays without ``--with-data``: weights, their keys, and the network that they lie in.

So do volumes of claims, which belong to no program.
"""
_SWEPT_AFTER: Final = ("serving", "cluster")
SETTLE_SECONDS: Final = 300.0
"""How long AWS's listing of tags may trail what was deleted."""


def take_down_cloud(
    session: Session, cloud: Cloud, *, with_data: bool, settle_seconds: float = SETTLE_SECONDS
) -> Left:
    """Destroy each stack in reverse, sweeping while nothing else is in the way; returns what stays.

    Raises:
        OperationError: something is protected, before anything was done; or a step failed; or
            something of ours is left in the end.
    """
    environment = cloud.target.environment
    kept = () if with_data else DATA_PROGRAMS
    stacks = [
        stack_name(environment, program)
        for program in reversed(PROGRAMS["aws"])
        if program not in kept
    ]
    existing = [stack for stack in stacks if stack in session.stacks.names()]
    _refuse_protected(session, environment, existing, with_data=with_data)
    volumes: tuple[Kept, ...] = ()
    for stack in stacks:
        program = split_stack(stack)[1]
        if stack in existing:
            _destroy(session, cloud, stack)
        if program in _SWEPT_AFTER:
            volumes = sweep_until_clean(
                cloud, session.stacks.backend, session.say, with_data=with_data
            )
    _say_kept(session, environment, volumes)
    return _prove(session, cloud, kept, volumes, settle_seconds)


def protected(session: Session, stack: str) -> list[str]:
    """Names of the resources of a stack that are protected in its state."""
    resources = session.stacks.backend.deployment(stack).get("resources") or []
    return [one["urn"].rpartition("::")[2] for one in resources if one.get("protect")]


def unprotect(session: Session, cloud: Cloud, *, with_data: bool) -> None:
    """Take the guard off the cluster, and with data off everything, in state and in EKS."""
    environment = cloud.target.environment
    for stack in _guarded(session, environment, with_data=with_data):
        session.stacks.pulumi("state", "unprotect", "--all", "--yes", "--stack", stack)
        session.say(f"{stack}: nothing is protected any more")
    if cluster_exists(cloud):
        _unguard_cluster(session, cloud)


def list_guarded(session: Session, cloud: Cloud, *, with_data: bool) -> list[str]:
    """Stack and name of each resource from which ``unprotect`` would take the guard."""
    stacks = _guarded(session, cloud.target.environment, with_data=with_data)
    return [f"{stack}: {name}" for stack in stacks for name in protected(session, stack)]


def _guarded(session: Session, environment: str, *, with_data: bool) -> list[str]:
    programs = [p for p in PROGRAMS["aws"] if with_data or p not in DATA_PROGRAMS]
    stacks = (stack_name(environment, program) for program in programs)
    return [stack for stack in stacks if protected(session, stack)]


def _refuse_protected(
    session: Session, environment: str, stacks: list[str], *, with_data: bool
) -> None:
    names = [
        f"{stack} ({', '.join(found)})" for stack in stacks if (found := protected(session, stack))
    ]
    if names:
        more = " --with-data" if with_data else ""
        raise OperationError(
            f"{environment} is protected",
            reason=f"guarded against deletion: {'; '.join(names)}",
            remedy=f"`tokenworks aws unprotect {environment}{more}` is the first of two deliberate "
            "steps; nothing was deleted",
        )


def _unguard_cluster(session: Session, cloud: Cloud) -> None:
    """Turn off EKS's own guard, so that the destroy is not refused halfway."""
    name = cloud.target.cluster
    found = cloud.call("eks", "describe_cluster", name=name)["cluster"]
    if found.get("deletionProtection"):
        cloud.call("eks", "update_cluster_config", name=name, deletionProtection=False)
        cloud.wait("eks", "cluster_active", name=name)
        session.say(f"{name}: EKS's deletion protection is off")


def _destroy(session: Session, cloud: Cloud, stack: str) -> None:
    begun, deployment = time.monotonic(), session.stacks.backend.deployment(stack)
    resources = deployment.get("resources") or []
    if split_stack(stack)[1] == "storage":
        for bucket in _buckets(resources):
            count = empty_bucket(cloud, bucket)
            session.say(f"{bucket}: {count} versions of objects deleted")
    session.stacks.destroy(stack, planned=len(resources))
    session.say(f"{stack}: {len(resources)} deleted ({time.monotonic() - begun:.0f} s)")


def _buckets(resources: list[dict[str, Any]]) -> list[str]:
    return [str(one["id"]) for one in resources if one["type"] == "aws:s3/bucket:Bucket"]


def _say_kept(session: Session, environment: str, volumes: tuple[Kept, ...]) -> None:
    for volume in volumes:
        name = f" ({volume.name})" if volume.name else ""
        session.say(f"volume {volume.id}{name}: kept, {volume.because}")
    if volumes:
        session.say(
            f"to delete them as well: `tokenworks aws sweep {environment}` before the next `up`, "
            f"or `tokenworks down {environment} --with-data`"
        )


def _prove(
    session: Session,
    cloud: Cloud,
    kept: tuple[str, ...],
    volumes: tuple[Kept, ...],
    settle_seconds: float,
) -> Left:
    """Look at everything that carries the tag until only what stays on purpose is there."""
    deadline = time.monotonic() + settle_seconds
    environment = cloud.target.environment
    while (found := sort_out(_tagged_but(cloud, volumes), cloud.target, kept)).left:
        if time.monotonic() >= deadline:
            raise OperationError(
                f"{environment} is not empty",
                reason=f"still there: {', '.join(one.arn for one in found.left)}",
                remedy=f"delete them and run `tokenworks down {environment}` again",
            )
        time.sleep(min(5.0, settle_seconds))
    more = f" and {len(volumes)} volumes of claims" if volumes else ""
    session.say(
        f"{environment}: nothing is left but {len(found.kept)} resources{more} kept on purpose"
    )
    return found


def _tagged_but(cloud: Cloud, volumes: tuple[Kept, ...]) -> list[Tagged]:
    """What carries the tag, without volumes that were kept: a driver may be told to set it."""
    kept = {volume.id for volume in volumes}
    return [one for one in read_tagged(cloud) if one.arn.rpartition("/")[2] not in kept]
