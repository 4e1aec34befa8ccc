"""What the programs of an environment would register, without any cloud or cluster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pulumi

from tokenworks.check.mocks import record_run
from tokenworks.check.recording import Recording
from tokenworks.plan.types import Plan, ServerPlan
from tokenworks.platforms.charts import chart_path
from tokenworks.platforms.choice import platform_parts
from tokenworks.programs.context import Certificate, Context
from tokenworks.programs.entry import program_of
from tokenworks.workspace import PROGRAMS, PROJECT, Workspace, stack_name

PLACEHOLDER = "a placeholder: no secret is needed to see what would be registered"


def record_environment(workspace: Workspace, plan: Plan) -> dict[str, Recording]:
    """Each program's recording, by program, with the outputs of earlier programs passed on."""
    with _no_collections():
        return _recordings(workspace, plan)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect no garbage for a while.

    A collection looks at everything that the SDKs define, and there are many while they load: two
    fifths of the processor time of an AWS environment (2.0 s with, 1.2 s without, 2026-11-30).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _recordings(workspace: Workspace, plan: Plan) -> dict[str, Recording]:
    recordings: dict[str, Recording] = {}
    names = [name for tenant in plan.gateway.tenants for name in tenant.key_secrets]
    names += [api.credential_secret for api in plan.gateway.apis]
    sources = [model.weights.populate.source for model in plan.models]
    tokens = [one.token_secret for one in sources if isinstance(one, ServerPlan)]
    names += [token for token in tokens if token]
    keys = {f"{PROJECT}:{name}": f"{PLACEHOLDER} ({name})" for name in names}
    for program in PROGRAMS[plan.platform]:
        own = stack_name(plan.environment, program)
        earlier = {
            stack_name(plan.environment, name): dict(recording.outputs)
            for name, recording in recordings.items()
        }
        recordings[program] = record_run(
            recorded_program(program, workspace, plan),
            PROJECT,
            own,
            secrets=keys,
            stacks={own: {}, **earlier},  # as if nothing of it were there yet
            calls=_account(plan),
        )
    return recordings


def _account(plan: Plan) -> dict[str, dict[str, object]]:
    """What AWS answers about itself to credentials of the environment's own account."""
    if plan.aws is None:
        return {}
    account, region = plan.aws.account, plan.aws.region
    return {
        "aws:index/getCallerIdentity:getCallerIdentity": {
            "accountId": account,
            "arn": f"arn:aws:iam::{account}:role/check",
            "userId": "CHECK",
            "id": account,
        },
        "aws:index/getRegion:getRegion": {"region": region, "name": region, "id": region},
    }


def recorded_program(program: str, workspace: Workspace, plan: Plan) -> Callable[[], None]:
    """A program as it can be recorded: it reads no secret, and fetches nothing."""
    return lambda: program_of(program)(_context(workspace, plan))


def _context(workspace: Workspace, plan: Plan) -> Context:
    parts = platform_parts(workspace, plan)
    return Context(
        workspace=workspace,
        plan=plan,
        parts=parts,
        certificate=lambda: Certificate(
            chain=PLACEHOLDER, private_key=pulumi.Output.secret(PLACEHOLDER)
        ),
        chart=chart_path,
    )
