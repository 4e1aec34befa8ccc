"""Take an environment down: each stack in reverse, then prove that nothing is left."""

from __future__ import annotations

import time
from pathlib import Path

from tokenworks.environment.sections import Environment
from tokenworks.errors import OperationError
from tokenworks.local_cluster import LocalCluster, State
from tokenworks.operations.guards import (
    Place,
    forget_cluster,
    refuse_another_place,
    refuse_what_others_made,
)
from tokenworks.operations.node import delete_node, forget_node, local_node, real_names
from tokenworks.operations.objects import our_objects
from tokenworks.operations.session import Session
from tokenworks.workspace import PROGRAMS, stack_name

TIDY_UP_SECONDS = 10
"""Controllers remove what belonged to deleted objects a moment later."""


def take_down(session: Session, name: str, environment: Environment) -> None:
    """Delete everything of an environment; its keys and certificate stay for the next time.

    Machines that exist keep their drivers, and a cluster that exists is not deleted.

    Raises:
        OperationError: something of ours is left in the cluster, which then stays as it is; or,
            before anything is deleted, what is up under this name is somewhere else, or its
            namespaces hold what others made.
    """
    given = environment.cluster.kubeconfig if environment.cluster else None
    place = Place(name=name, platform=environment.platform, kubeconfig=given)
    refuse_another_place(session, place)
    stacks = [stack_name(name, program) for program in reversed(PROGRAMS[environment.platform])]
    existing = [stack for stack in stacks if stack in session.stacks.names()]
    if environment.cluster is not None:
        kubeconfig = session.workspace.kubeconfig(name, given)
        if any(map(session.stacks.resources, existing)):
            refuse_what_others_made(session, name, kubeconfig)
        _destroy(session, existing)
        _refuse_leftovers(session, name, kubeconfig, name)
        forget_cluster(session.workspace, name)
        session.say(f"{name}: no object of it is left; its machines and cluster stay as they are")
        return
    # What the file says now is not what was brought up: a node that is there goes in any case.
    node = local_node(session.workspace, name)
    has_node = environment.has_real_node or node.is_there
    cluster = session.cluster(name, has_real_node=has_node)
    if cluster.status().state is State.ABSENT:
        for stack in existing:
            session.stacks.forget(stack)
            session.say(f"{stack}: forgotten, its cluster is gone")
        _delete(session, name, cluster)
        return
    cluster.ensure_running(session.toolbox, session.say)
    if has_node and node.pid() is None:
        # Nobody would say of its pods that they have ended.
        forget_node(session, cluster.kubeconfig, {*real_names(environment), *node.names})
    _destroy(session, existing)
    _refuse_leftovers(session, name, cluster.kubeconfig, None)
    _delete(session, name, cluster)
    session.say(f"{name}: no object is left, and its cluster is deleted")


def _delete(session: Session, name: str, cluster: LocalCluster) -> None:
    delete_node(session.workspace, name)
    cluster.delete()


def _destroy(session: Session, stacks: list[str]) -> None:
    for stack in stacks:
        begun, count = time.monotonic(), session.stacks.resources(stack)
        session.stacks.destroy(stack, planned=count)
        session.say(f"{stack}: {count} deleted ({time.monotonic() - begun:.0f} s)")


def _refuse_leftovers(
    session: Session, name: str, kubeconfig: Path, environment: str | None
) -> None:
    left = _left(session, kubeconfig, environment)
    if left:
        raise OperationError(
            f"{name} is not empty",
            reason=f"still there: {', '.join(left)}",
            remedy=f"delete them with kubectl and run `tokenworks down {name}` again",
        )


def _left(session: Session, kubeconfig: Path, environment: str | None) -> tuple[str, ...]:
    """Objects of ours that are still there once controllers have had time to tidy up."""
    deadline = time.monotonic() + TIDY_UP_SECONDS
    kubectl = session.toolbox.path("kubectl")
    while left := our_objects(kubectl, kubeconfig, environment=environment):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.5)
    return ()
