"""Secrets that only people can give: looked for before anything is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokenworks.errors import ConfigError, Problem
from tokenworks.operations.stacks import Stacks
from tokenworks.plan.types import Plan, ServerPlan
from tokenworks.workspace import PROJECT, stack_name


def refuse_missing_secrets(stacks: Stacks, plan: Plan) -> None:
    """Look for every secret that an environment refers to and that is not made by `up` itself.

    Without this a missing one would stop the last program, when the others have been changed.

    Raises:
        ConfigError: some are not set, or are set in plain text.
    """
    if not dict(_references(plan)):
        return
    stack = stack_name(plan.environment, "serving")
    stacks.open(stack)
    settings = json.loads(stacks.pulumi("config", "--json", "--stack", stack).stdout)
    problems = list(secret_problems(plan, settings))
    if problems:
        raise ConfigError(problems)


def secret_problems(plan: Plan, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Each secret that the settings of the serving stack, as Pulumi prints them, do not hold."""
    stack = stack_name(plan.environment, "serving")
    for key, name in _references(plan):
        found = settings.get(f"{PROJECT}:{name}")
        if found is None:
            reason = f"is not among the settings of {stack}"
        elif not found.get("secret"):
            reason = f"is in plain text among the settings of {stack}"
        else:
            continue
        remedy = f"run `pulumi config set --secret {name} --stack {stack} < FILE`, which holds it"
        yield Problem(key=key, given=name, reason=reason, remedy=remedy)


def _references(plan: Plan) -> Iterator[tuple[str, str]]:
    for index, api in enumerate(plan.gateway.apis):
        yield f"gateway.apis[{index}].credential", api.credential_secret
    for index, model in enumerate(plan.models):
        source = model.weights.populate.source
        if isinstance(source, ServerPlan) and source.token_secret is not None:
            yield f"models[{index}].weights.source", source.token_secret
    if plan.cluster is not None and plan.cluster.certificate is not None:
        yield "cluster.certificate.private_key", plan.cluster.certificate.key_secret
    if plan.aws is not None and plan.aws.certificate is not None:
        yield "aws.certificate.private_key", plan.aws.certificate.key_secret
