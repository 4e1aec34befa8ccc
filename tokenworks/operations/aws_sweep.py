"""Sweeping what controllers left behind: shown first, by tags only, with nothing left untold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tokenworks.aws.client import Cloud
from tokenworks.aws.inventory import read_inventory
from tokenworks.aws.sweep import Kept, SweepPlan, plan_sweep
from tokenworks.aws.sweep_steps import PATIENCE_SECONDS, Failure, Swept, carry_out
from tokenworks.errors import OperationError
from tokenworks.operations.backends import Backend
from tokenworks.workspace import stack_name

POLL_SECONDS = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What was planned, and what became of it."""

    plan: SweepPlan
    swept: Swept


def survey(cloud: Cloud, backend: Backend, *, with_data: bool = True) -> SweepPlan:
    """What would be swept now; without data, volumes of claims stay.

    Raises:
        OperationError: the serving stack still has resources, so that nothing is left behind yet.
    """
    environment = cloud.target.environment
    stack = stack_name(environment, "serving")
    if count := len(backend.deployment(stack).get("resources") or []):
        raise OperationError(
            f"sweep of {environment}",
            reason=f"{stack} has {count} resources, and controllers serve them with what would go",
            remedy=f"take it down first: `tokenworks down {environment}` sweeps by itself",
        )
    return plan_sweep(read_inventory(cloud), cloud.target, with_data=with_data)


def sweep(
    cloud: Cloud,
    backend: Backend,
    shown: SweepPlan,
    say: Say,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Sweep:
    """Delete what was shown and is still so: what has come into use since stays."""
    now = survey(cloud, backend)
    steps = [step for step in now.steps if step in shown.steps]
    swept = carry_out(cloud, steps, say, patience_seconds=patience_seconds)
    return Sweep(plan=now, swept=swept)


def sweep_until_clean(
    cloud: Cloud,
    backend: Backend,
    say: Say,
    *,
    with_data: bool,
    patience_seconds: float = PATIENCE_SECONDS,
) -> tuple[Kept, ...]:
    """Sweep again while AWS lets go of what it was using; returns what is kept for its data.

    Raises:
        OperationError: a call failed, or something of ours cannot go.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        plan = survey(cloud, backend, with_data=with_data)
        swept = carry_out(cloud, plan.steps, say, patience_seconds=patience_seconds)
        refuse_failures(cloud, swept.failed, ())
        if not plan.blocked:
            return plan.kept_data
        if time.monotonic() >= deadline:
            refuse_failures(cloud, (), plan.blocked)
        say(f"waiting for {plan.blocked[0].kind} {plan.blocked[0].id}")
        time.sleep(min(POLL_SECONDS, patience_seconds))


def refuse_failures(cloud: Cloud, failed: tuple[Failure, ...], blocked: tuple[Kept, ...]) -> None:
    """Raise where anything of ours is left that should have gone.

    Raises:
        OperationError: names each with the reason.
    """
    lines = [f"{one.step.kind} {one.step.id}: {one.reason}" for one in failed]
    lines += [f"{kept.kind} {kept.id}: {kept.because}" for kept in blocked]
    if lines:
        environment = cloud.target.environment
        raise OperationError(
            f"sweep of {environment}",
            reason=f"still there: {'; '.join(lines)}",
            remedy=f"remove what holds it and run `tokenworks aws sweep {environment}` again",
        )
