"""From the name of a stack to the program that it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pulumi

from tokenworks.check.guard import install_guard
from tokenworks.check.pins import refuse_pins
from tokenworks.errors import ConfigError, Problem, TokenworksError
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.platforms.charts import chart_archive
from tokenworks.platforms.choice import platform_parts
from tokenworks.programs.context import Certificate, Context
from tokenworks.workspace import PROGRAMS, Workspace, split_stack, stack_name


def program_of(name: str) -> Callable[[Context], None]:
    """The program of that name; only its own part of the SDK is loaded."""
    module = importlib.import_module(f"tokenworks.programs.{name}")
    run: Callable[[Context], None] = module.program
    return run


def main() -> None:
    """Run the program of the current stack; a refusal is one message, not a traceback."""
    workspace = Workspace(Path(__file__).resolve().parent.parent.parent)
    environment, program = split_stack(pulumi.get_stack())
    try:
        install_guard()
        refuse_pins(workspace)
        plan = plan_environment(workspace, environment)
        _refuse_unknown(program, plan)
        program_of(program)(_context(workspace, plan))
    except TokenworksError as error:
        pulumi.log.error(str(error))
        sys.exit(1)


def _context(workspace: Workspace, plan: Plan) -> Context:
    parts = platform_parts(workspace, plan)

    def certificate() -> Certificate:
        chain, private_key = parts.certificate()
        return Certificate(chain=chain, private_key=private_key)

    return Context(
        workspace=workspace,
        plan=plan,
        parts=parts,
        certificate=certificate,
        chart=partial(chart_archive, workspace),
    )


def _refuse_unknown(program: str, plan: Plan) -> None:
    programs = PROGRAMS[plan.platform]
    if program in programs:
        return
    stacks = ", ".join(stack_name(plan.environment, name) for name in programs)
    raise ConfigError(
        [
            Problem(
                key="stack",
                given=stack_name(plan.environment, program),
                reason=f"names no program of platform {plan.platform}",
                remedy=f"use one of: {stacks}",
            )
        ]
    )
