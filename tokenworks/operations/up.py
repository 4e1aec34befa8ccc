"""Bring an environment up: cluster, then each program's stack in order."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenworks.errors import OperationError
from tokenworks.files import private_folder
from tokenworks.local_cluster import LocalCluster, State
from tokenworks.operations.certificates import ensure_certificate
from tokenworks.operations.first_request import (
    askers,
    first_request,
    why_nobody_asks,
    write_key_files,
)
from tokenworks.operations.given_secrets import refuse_missing_secrets
from tokenworks.operations.guards import (
    Place,
    refuse_another_place,
    refuse_lost_settings,
    remember_cluster,
)
from tokenworks.operations.node import Ready, join_node, leave_node, make_ready
from tokenworks.operations.record import record_environment
from tokenworks.operations.session import Session
from tokenworks.operations.stacks import Changes
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.workspace import PROGRAMS, stack_name

Confirm = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class BroughtUp:
    """What changed in each stack, and a first request where something really answers."""

    changes: dict[str, Changes]
    request: str | None


def bring_up(session: Session, plan: Plan, confirm: Confirm | None) -> BroughtUp:
    """Make an environment what its file says.

    With ``confirm`` each stack's changes are shown first, and nothing happens without a yes.

    Raises:
        ConfigError: a secret that people must give is missing; nothing was changed.
        OperationError: what is up under this name is somewhere else, or its settings are.
    """
    if plan.cluster is not None:
        _find_credentials(plan.cluster.kubeconfig)
    refuse_another_place(session, Place.of(plan))
    refuse_lost_settings(session.stacks, plan)
    refuse_missing_secrets(session.stacks, plan)
    pool = plan.real_pool
    ready = None if pool is None else _make_node_ready(session, plan.environment)
    if pool is not None:
        # Its images are made by now, and are a part of the plan.
        plan = plan_environment(session.workspace, plan.environment)
    planned = {
        program: len(recording.resources) + 1  # the stack itself is a resource, too
        for program, recording in record_environment(session.workspace, plan).items()
    }
    is_new = _ready_cluster(session, plan, planned, confirm)
    if pool is None and plan.platform == "simulated":
        leave_node(session, plan.environment)
    changes: dict[str, Changes] = {}
    for program in PROGRAMS[plan.platform]:
        stack = stack_name(plan.environment, program)
        if program == "serving" and pool is not None and ready is not None:
            # Not before: simulated nodes of an earlier file go with the cluster's program.
            join_node(session, plan, pool, ready)
        if confirm is not None:
            _ask(session, stack, confirm, done=tuple(changes))
        remember_cluster(session, Place.of(plan))
        begun = time.monotonic()
        # A new cluster is empty, whatever the state remembers of an earlier one.
        changes[stack] = session.stacks.update(
            stack, planned=planned[program], refresh=is_new and _has_state(session, stack)
        )
        session.say(f"{stack}: {describe(changes[stack])} ({time.monotonic() - begun:.0f} s)")
    return BroughtUp(changes=changes, request=_request(session, plan))


def _request(session: Session, plan: Plan) -> str | None:
    if plan.real_pool is None:
        return None
    write_key_files(session, plan)
    asker = next(iter(askers(plan)), None)
    if asker is None:
        session.say(f"there is no first request to show: {why_nobody_asks(plan)}")
        return None
    port = session.cluster(plan.environment).ports()["gateway"]
    return first_request(session.workspace, plan, asker, port)


def _make_node_ready(session: Session, environment: str) -> Ready:
    private_folder(session.workspace.machine / environment)
    return make_ready(session.workspace, environment, session.console)


def _ready_cluster(
    session: Session, plan: Plan, planned: dict[str, int], confirm: Confirm | None
) -> bool:
    """Have a cluster to bring the environment up in; returns whether it is a new one."""
    if plan.platform != "simulated":
        if plan.aws is not None:
            _look_for_lost_states(session, plan.environment)
        _make_keys(session, plan)
        return False
    cluster = session.cluster(plan.environment, has_real_node=plan.real_pool is not None)
    if confirm is not None:
        _ask_about_cluster(session, cluster, plan, planned, confirm)
    _make_certificate(session, plan)
    _make_keys(session, plan)
    return cluster.ensure_running(session.toolbox, session.say).created


def _look_for_lost_states(session: Session, environment: str) -> None:
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.operations.aws_up import refuse_lost_states

    cloud = find_cloud(session.workspace, environment)
    refuse_lost_states(cloud, session.stacks.backend)


def _find_credentials(kubeconfig: str) -> None:
    if not Path(kubeconfig).expanduser().is_file():
        raise OperationError(
            f"credentials {kubeconfig}",
            reason="there is no such file on this machine",
            remedy="put the cluster's kubeconfig there, or correct cluster.kubeconfig",
        )


def describe(changes: Changes) -> str:
    """Changes in words, such as ``21 created`` or ``nothing changed``."""
    words = {
        "created": changes.create,
        "updated": changes.update,
        "replaced": changes.replace,
        "deleted": changes.delete,
    }
    return ", ".join(f"{count} {word}" for word, count in words.items() if count) or (
        f"nothing changed, {changes.same} as they were"
    )


def _ask_about_cluster(
    session: Session,
    cluster: LocalCluster,
    plan: Plan,
    planned: dict[str, int],
    confirm: Confirm,
) -> None:
    """Ask before anything is made or started, where the cluster does not run yet."""
    state = cluster.status().state
    if state is State.RUNNING:
        return
    resources = ", ".join(f"{program} {count}" for program, count in planned.items())
    session.say(f"the cluster of {plan.environment} is {state.value}; resources: {resources}")
    if not confirm(f"Start it and bring {plan.environment} up?"):
        raise _declined(plan.environment)


def _ask(session: Session, stack: str, confirm: Confirm, done: tuple[str, ...]) -> None:
    changes = session.stacks.preview(stack)
    session.say(f"{stack}: {describe(changes)}, if you agree")
    if changes.any and not confirm(f"Update {stack}?"):
        raise _declined(stack, done)


def _declined(what: str, done: tuple[str, ...] = ()) -> OperationError:
    left = (
        f"it was not changed; {', '.join(done)} had been updated" if done else "it was not changed"
    )
    return OperationError(f"update of {what}", reason="you said no", remedy=left)


def _has_state(session: Session, stack: str) -> bool:
    return session.stacks.resources(stack) > 0


def _make_certificate(session: Session, plan: Plan) -> None:
    """A certificate by a local CA, made once and kept."""
    folder = session.workspace.certificates(plan.environment)
    now = datetime.datetime.now(datetime.UTC)
    if ensure_certificate(folder, plan.gateway.hostname, now):
        session.say(f"certificate for {plan.gateway.hostname} made, signed by {folder / 'ca.crt'}")


def _make_keys(session: Session, plan: Plan) -> None:
    """Every tenant's API keys, made once and kept."""
    stack = stack_name(plan.environment, "serving")
    names = [name for tenant in plan.gateway.tenants for name in tenant.key_secrets]
    for name in session.stacks.ensure_secrets(stack, names):
        session.say(f"API key {name} made, kept encrypted in the settings of {stack}")
