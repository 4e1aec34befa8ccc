"""Collecting machine images that nothing uses any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tokenworks.aws.client import Cloud
from tokenworks.aws.images import Verdict, judge_images
from tokenworks.aws.images_steps import collect, read_images, read_uses
from tokenworks.errors import OperationError
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace


def judge(workspace: Workspace, cloud: Cloud, keep: int) -> tuple[Verdict, ...]:
    """Every image of the environment, and whether it can go.

    Raises:
        TokenworksError: the plan is refused, so that it is not known what it wants; or something
            could not be listed.
    """
    plan = plan_environment(workspace, cloud.target.environment)
    planned = [image.name for image in plan.aws.images] if plan.aws else []
    return judge_images(read_images(cloud), read_uses(cloud), planned, cloud.target, keep=keep)


def collect_images(
    workspace: Workspace,
    cloud: Cloud,
    shown: Sequence[Verdict],
    keep: int,
    say: Callable[[str], None],
) -> None:
    """Deregister what was shown to go and may still go: what has come into use since stays.

    Raises:
        OperationError: something could not be deregistered or deleted; the rest was.
    """
    going = {verdict.image.id for verdict in shown if verdict.goes}
    now = [each for each in judge(workspace, cloud, keep) if each.image.id in going]
    if failed := collect(cloud, now, say):
        raise OperationError(
            f"images of {cloud.target.environment}",
            reason="; ".join(f"{id_}: {reason}" for id_, reason in failed),
            remedy="correct what AWS names and run the same command again",
        )
