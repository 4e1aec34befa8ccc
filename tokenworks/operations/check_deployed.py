"""The nightly check: the state of an environment's stacks, and the objects in its cluster."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence

from policy.resources import Resource
from policy.rule import Finding
from tokenworks.check.deployed import cluster_resources, state_resources
from tokenworks.check.judge import Judgement, judge, not_judged, with_findings
from tokenworks.check.places import Places
from tokenworks.environment.load import load_environment
from tokenworks.environment.sections import Environment
from tokenworks.errors import OperationError
from tokenworks.operations.backends import backend_of
from tokenworks.operations.check import settle
from tokenworks.operations.objects import objects
from tokenworks.operations.session import Session
from tokenworks.workspace import PROGRAMS, stack_name

# No rule asks for what a Secret holds, so it is best not read at all.
_UNREAD = frozenset({"secrets"})

Found = tuple[list[Resource], list[Finding]]


def check_deployed(
    session: Session, environments: Sequence[str], today: datetime.date
) -> Judgement:
    """Judge what every stack of the environments holds, and what is in their clusters.

    What cannot be reached is a finding, since nobody can tell then.
    """
    total, judged = judge(()), list[Resource]()
    for name in environments:
        loaded = load_environment(name, session.workspace.stacks).environment
        for resources, findings in (
            _stacks(session, name, loaded),
            _cluster(session, name, loaded),
        ):
            judged += resources
            total += with_findings(judge(resources), findings)
    return settle(total, session.workspace, judged, today, everything=False)


def _stacks(session: Session, environment: str, loaded: Environment) -> Found:
    """Return the resources in the state of every stack, as one estate."""
    places = Places.of(session.workspace.stacks / f"{environment}.yaml")
    resources: list[Resource] = []
    findings: list[Finding] = []
    try:
        stacks = session.stacks.under(backend_of(session.workspace, environment, loaded))
    except OperationError as error:
        return [], [_unreachable(f"state of {environment}", error, environment)]
    for program in PROGRAMS[loaded.platform]:
        name = stack_name(environment, program)
        try:
            exported = json.loads(stacks.pulumi("stack", "export", "--stack", name).stdout)
        except OperationError as error:
            findings.append(_unreachable(f"stack {name}", error, environment))
            continue
        deployment = exported.get("deployment") or {}
        resources += state_resources(deployment, _origin(environment), places)
    return resources, findings


def _cluster(session: Session, environment: str, loaded: Environment) -> Found:
    kubectl = session.toolbox.path("kubectl")
    given = loaded.cluster.kubeconfig if loaded.cluster else None
    kubeconfig = session.workspace.kubeconfig(environment, given)
    try:
        found = objects(kubectl, kubeconfig, without=_UNREAD)
    except OperationError as error:
        return [], [_unreachable(f"cluster of {environment}", error, environment)]
    places = Places.of(session.workspace.stacks / f"{environment}.yaml")
    return cluster_resources(found, environment, _origin(environment), places)


def _origin(environment: str) -> str:
    return f"stacks/{environment}.yaml"


def _unreachable(subject: str, error: OperationError, environment: str) -> Finding:
    return not_judged(
        subject,
        reason=f"cannot be looked at: {' '.join(error.reason.split())}",
        remedy=error.remedy,
        origin=_origin(environment),
    )
