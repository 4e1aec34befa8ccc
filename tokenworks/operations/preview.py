"""What bringing an environment up would change."""

from __future__ import annotations

from tokenworks.errors import OperationError
from tokenworks.local_cluster import State
from tokenworks.operations.guards import Place, refuse_another_place, refuse_lost_settings
from tokenworks.operations.record import record_environment
from tokenworks.operations.session import Session
from tokenworks.operations.stacks import Changes
from tokenworks.plan.types import Plan
from tokenworks.workspace import stack_name


def preview(session: Session, plan: Plan) -> dict[str, Changes]:
    """Changes in each stack; where there is no cluster or no stack yet, all would be created.

    Raises:
        OperationError: the cluster exists and does not run, so that it cannot be asked; or what is
            up under this name is somewhere else, or its settings are.
    """
    refuse_another_place(session, Place.of(plan))
    refuse_lost_settings(session.stacks, plan)
    state = _state(session, plan)
    if state not in (State.ABSENT, State.RUNNING):
        raise OperationError(
            f"preview of {plan.environment}",
            reason=f"its cluster is {state.value}",
            remedy=f"run `tokenworks up {plan.environment}`, which starts it with the data it has",
        )
    existing = session.stacks.names() if state is State.RUNNING else ()
    changes: dict[str, Changes] = {}
    for program, recording in record_environment(session.workspace, plan).items():
        stack = stack_name(plan.environment, program)
        if stack in existing:
            changes[stack] = session.stacks.preview(stack)
        else:
            changes[stack] = Changes(create=len(recording.resources) + 1)
    return changes


def _state(session: Session, plan: Plan) -> State:
    """State of a local cluster; any other is not ours to start here, and so counts as running."""
    if plan.platform != "simulated":
        return State.RUNNING
    return session.cluster(plan.environment).status().state
