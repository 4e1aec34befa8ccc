"""Having an earlier state of a stack back from the bucket's versions."""

from __future__ import annotations

from tokenworks.aws.client import Cloud
from tokenworks.aws.state_versions import Version, list_versions, restore_version
from tokenworks.errors import OperationError
from tokenworks.operations.backends import Backend, state_key
from tokenworks.workspace import PROGRAMS, stack_name


def versions_of(cloud: Cloud, program: str) -> list[Version]:
    """Versions of the state of one program's stack, newest first.

    Raises:
        OperationError: no such program, or no version.
    """
    if program not in PROGRAMS["aws"]:
        raise OperationError(
            f"program {program}",
            reason="is not one of platform aws",
            remedy=f"name one of {', '.join(PROGRAMS['aws'])}",
        )
    return list_versions(cloud, state_key(stack_name(cloud.target.environment, program)))


def restore(cloud: Cloud, backend: Backend, program: str, version: str) -> str:
    """Make a version the latest again; returns the stack's name.

    Raises:
        OperationError: somebody holds the stack, or the version is no state.
    """
    stack = stack_name(cloud.target.environment, program)
    if locks := backend.locks(stack):
        raise OperationError(
            f"state of {stack}",
            reason=f"{locks[0]} holds it",
            remedy=f"wait for it; if it is dead, `pulumi cancel --stack {stack}`, then try again",
        )
    restore_version(cloud, state_key(stack), version)
    return stack
