"""Take an environment down: each stack in reverse, then prove that nothing is left."""

from __future__ import annotations

import time

from tokenworks.errors import OperationError
from tokenworks.local_cluster import LocalCluster, State
from tokenworks.operations.objects import our_objects
from tokenworks.operations.session import Session
from tokenworks.workspace import PROGRAMS, stack_name

TIDY_UP_SECONDS = 10
"""Controllers remove what belonged to deleted objects a moment later."""


def take_down(session: Session, environment: str, platform: str) -> None:
    """Delete everything of an environment; its keys and certificate stay for the next time.

    Raises:
        OperationError: something of ours is left in the cluster, which then stays as it is.
    """
    cluster = session.cluster(environment)
    stacks = [stack_name(environment, program) for program in reversed(PROGRAMS[platform])]
    existing = [stack for stack in stacks if stack in session.stacks.names()]
    if cluster.status().state is State.ABSENT:
        for stack in existing:
            session.stacks.forget(stack)
            session.say(f"{stack}: forgotten, its cluster is gone")
        cluster.delete()
        return
    cluster.ensure_running(session.toolbox, session.say)
    for stack in existing:
        begun, count = time.monotonic(), session.stacks.resources(stack)
        session.stacks.destroy(stack, planned=count)
        session.say(f"{stack}: {count} deleted ({time.monotonic() - begun:.0f} s)")
    left = _left(session, cluster)
    if left:
        raise OperationError(
            f"{environment} is not empty",
            reason=f"still there: {', '.join(left)}",
            remedy=f"delete them with kubectl and run `tokenworks down {environment}` again",
        )
    cluster.delete()
    session.say(f"{environment}: no object is left, and its cluster is deleted")


def _left(session: Session, cluster: LocalCluster) -> tuple[str, ...]:
    """Objects of ours that are still there once controllers have had time to tidy up."""
    deadline = time.monotonic() + TIDY_UP_SECONDS
    kubectl = session.toolbox.path("kubectl")
    while left := our_objects(kubectl, cluster.kubeconfig):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.5)
    return ()
