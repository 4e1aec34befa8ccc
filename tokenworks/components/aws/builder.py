"""Preparing the builder of an image by the same roles as any host, then putting it to sleep.

As with pools of hosts, Pulumi keeps only the name of this provider in its state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pulumi.dynamic import CreateResult, DiffResult, ReadResult, ResourceProvider
from pydantic import TypeAdapter
from rich.console import Console

from tokenworks.aws.target import Target
from tokenworks.errors import OperationError
from tokenworks.hosts.inventory import Pool
from tokenworks.hosts.operate import prepare_pool, verify_pool
from tokenworks.hosts.progress import Tracker
from tokenworks.hosts.provider import failure, plain, while_the_engine_lives
from tokenworks.hosts.runner import Playbook, Watch, run_playbook

if TYPE_CHECKING:
    from tokenworks.aws.client import Cloud

SEAL: Final = Playbook(name="seal.yml", timeout_seconds=10 * 60)
ANSWERS_WITHIN_SECONDS: Final = 15 * 60
"""From the instance's start until its agent answers; a machine with GPUs takes minutes to boot."""
_LOOK_EVERY_SECONDS: Final = 10
_POOL: Final = TypeAdapter(Pool)
_TARGET: Final = TypeAdapter(Target)


def builder_inputs(pool: Pool, target: Target) -> dict[str, Any]:
    """Everything that a builder's provider needs, once ``pool`` has the instance's id."""
    dumped = _POOL.dump_python(pool, mode="json")
    return {"pool": dumped, "target": _TARGET.dump_python(target, mode="json")}


class BuilderProvider(ResourceProvider):
    """Makes a builder ready to be copied: prepared, proven, sealed and stopped."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Do all of it; a repeat after a failure finishes what was begun.

        Raises:
            OperationError: another account, an agent that never answers, a host that is not good.
        """
        from tokenworks.aws.client import (
            connect,  # boto3 is slow to load, and only a build needs it
        )

        pool: Pool = _POOL.validate_python(plain(props["pool"]))
        cloud = connect(_TARGET.validate_python(props["target"]))
        (host,) = pool.hosts
        wait_until_it_answers(cloud, host.address)
        tracker = Tracker(f"build {pool.name}", Console(file=sys.stderr, no_color=True, width=200))
        _prepare(pool, tracker)
        _stop(cloud, host.address)
        return CreateResult(id_=host.address, outs=props)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Never: another content has another builder, by its name."""
        return DiffResult(changes=False)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """What was built stays built: the builder sleeps, and its image is looked at instead."""
        return ReadResult(id_, props)


def wait_until_it_answers(
    cloud: Cloud,
    instance: str,
    *,
    within_seconds: float = ANSWERS_WITHIN_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once Session Manager reaches the instance.

    Raises:
        OperationError: it did not within its time.
    """
    deadline = time.monotonic() + within_seconds
    filters = [{"Key": "InstanceIds", "Values": [instance]}]
    while True:
        known = cloud.call("ssm", "describe_instance_information", Filters=filters)
        if any(one["PingStatus"] == "Online" for one in known["InstanceInformationList"]):
            return
        if time.monotonic() >= deadline:
            raise OperationError(
                f"builder {instance}",
                reason=f"its agent does not answer Session Manager after {within_seconds:.0f} s",
                remedy="see in its console output (aws ec2 get-console-output) whether it boots "
                "and has amazon-ssm-agent, and that the endpoints ssm and ssmmessages are there",
            )
        sleep(_LOOK_EVERY_SECONDS)


def _prepare(pool: Pool, watch: Watch) -> None:
    """Bring the builder to its lock, hold it against the lock, and make it forget itself."""
    with while_the_engine_lives() as gone:
        for operation, what in ((prepare_pool, "preparation"), (verify_pool, "verification")):
            report = operation(pool, watch, gone)
            if bad := [host for host in report.hosts if not host.outcome.good]:
                raise failure(report, bad, what)
        sealed = run_playbook(SEAL, pool, pool.hosts, watch=watch, cancelled=gone)
    if not sealed.good:
        (host,) = sealed.hosts
        raise OperationError(
            f"sealing the builder of {pool.name}",
            reason=f"{host.task}: {host.message}",
            remedy="correct what is named there and run it again, which is safe",
        )


def _stop(cloud: Cloud, instance: str) -> None:
    """A stopped machine is copied whole, costs nothing but its disk, and starts for nobody."""
    from botocore.exceptions import WaiterError

    cloud.call("ec2", "stop_instances", InstanceIds=[instance])
    try:
        cloud.client("ec2").get_waiter("instance_stopped").wait(InstanceIds=[instance])
    except WaiterError as error:
        raise OperationError(
            f"builder {instance}",
            reason=f"it does not stop: {error}",
            remedy="look at it in the EC2 console and run it again, which is safe",
        ) from error
