"""Before an update in AWS: a stack without a state must not make everything a second time."""

from __future__ import annotations

from tokenworks.aws.client import Cloud
from tokenworks.aws.leftovers import read_tagged, sort_out
from tokenworks.aws.target import PROGRAM_TAG
from tokenworks.errors import OperationError
from tokenworks.operations.backends import Backend
from tokenworks.operations.guards import some_of
from tokenworks.workspace import PROGRAMS, stack_name

_NAMED = 3
"""How many are named; the import plan lists all."""


def refuse_lost_states(cloud: Cloud, backend: Backend) -> None:
    """Refuse where a stack has no resources in its state, and what carries its tags exists.

    That is how a lost state became a second production, and the way back took the first one.
    Images outlive their stack on purpose.

    Raises:
        OperationError: such a stack, with what exists.
    """
    environment = cloud.target.environment
    there = sort_out(read_tagged(cloud), cloud.target, ()).left
    for program in PROGRAMS["aws"]:
        stack = stack_name(environment, program)
        arns = [one.arn for one in there if one.tags.get(PROGRAM_TAG) == program]
        if arns and not backend.deployment(stack).get("resources"):
            raise OperationError(
                f"update of {stack}",
                reason=f"it has no state, but its resources exist: {some_of(arns, _NAMED)}",
                remedy=f"have its state back (`tokenworks aws versions {environment} {program}`), "
                f"or adopt them (`tokenworks aws import-plan {environment}`); nothing was changed",
            )
