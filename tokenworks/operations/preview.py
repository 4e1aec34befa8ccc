"""What bringing an environment up would change."""

from __future__ import annotations

from tokenworks.errors import OperationError
from tokenworks.local_cluster import State
from tokenworks.operations.record import record_environment
from tokenworks.operations.session import Session
from tokenworks.operations.stacks import Changes
from tokenworks.plan.types import Plan
from tokenworks.workspace import PROGRAMS, stack_name


def preview(session: Session, plan: Plan) -> dict[str, Changes]:
    """Changes in each stack; where there is no cluster yet, everything would be created.

    Raises:
        OperationError: the cluster exists and does not run, so that it cannot be asked.
    """
    state = session.cluster(plan.environment).status().state
    stacks = {program: stack_name(plan.environment, program) for program in PROGRAMS[plan.platform]}
    if state is State.ABSENT:
        recordings = record_environment(session.workspace, plan)
        return {
            stacks[program]: Changes(create=len(recording.resources) + 1)
            for program, recording in recordings.items()
        }
    if state is not State.RUNNING:
        raise OperationError(
            f"preview of {plan.environment}",
            reason=f"its cluster is {state.value}",
            remedy=f"run `tokenworks up {plan.environment}`, which starts it with the data it has",
        )
    return {stack: session.stacks.preview(stack) for stack in stacks.values()}
