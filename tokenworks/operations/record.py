"""What the programs of an environment would register, without any cloud or cluster."""

from __future__ import annotations

from functools import partial

import pulumi

from tokenworks.check.mocks import record_run
from tokenworks.check.recording import Recording
from tokenworks.plan.types import Plan, ServerPlan
from tokenworks.platforms.choice import platform_parts
from tokenworks.programs.context import Certificate, Context
from tokenworks.programs.entry import program_of
from tokenworks.workspace import PROGRAMS, PROJECT, Workspace, stack_name

PLACEHOLDER = "a placeholder: no secret is needed to see what would be registered"


def record_environment(workspace: Workspace, plan: Plan) -> dict[str, Recording]:
    """Each program's recording, by program, with the outputs of earlier programs passed on."""
    recordings: dict[str, Recording] = {}
    names = [name for tenant in plan.gateway.tenants for name in tenant.key_secrets]
    names += [api.credential_secret for api in plan.gateway.apis]
    sources = [model.weights.populate.source for model in plan.models]
    tokens = [one.token_secret for one in sources if isinstance(one, ServerPlan)]
    names += [token for token in tokens if token]
    keys = {f"{PROJECT}:{name}": f"{PLACEHOLDER} ({name})" for name in names}
    for program in PROGRAMS[plan.platform]:
        recordings[program] = record_run(
            partial(_run, program, workspace, plan),
            PROJECT,
            stack_name(plan.environment, program),
            secrets=keys,
            stacks={
                stack_name(plan.environment, earlier): dict(recording.outputs)
                for earlier, recording in recordings.items()
            },
        )
    return recordings


def _run(program: str, workspace: Workspace, plan: Plan) -> None:
    program_of(program)(_context(workspace, plan))


def _context(workspace: Workspace, plan: Plan) -> Context:
    parts = platform_parts(workspace, plan)
    return Context(
        workspace=workspace,
        plan=plan,
        provider=parts.provider,
        load_balancer=parts.load_balancer,
        certificate=lambda: Certificate(
            chain=PLACEHOLDER, private_key=pulumi.Output.secret(PLACEHOLDER)
        ),
    )
