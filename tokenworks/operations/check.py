"""The pull-request check: environments of a checkout, plain manifests, lists of resources."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policy.resources import Resource
from policy.rule import Finding, Verdict
from policy.rules import RULES
from policy.waivers import NAME as WAIVERS
from policy.waivers import load_waivers
from tokenworks.check.files import STDIN, read_manifests, read_resources
from tokenworks.check.judge import (
    EVERYTHING_IS_JUDGED,
    Judgement,
    judge,
    not_judged,
    waive,
    with_findings,
)
from tokenworks.errors import ConfigError, Problem, TokenworksError, UndecidableError
from tokenworks.workspace import Workspace

if TYPE_CHECKING:
    from tokenworks.operations.session import Session

LONGEST_MESSAGE = 500


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to judge: environments, or what is deployed of them, or files instead of them."""

    environments: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    deployed: bool = False

    @property
    def problem(self) -> str:
        """Why this cannot be asked for; empty if it can."""
        files = bool(self.manifests or self.lists)
        if files and (self.environments or self.deployed):
            return (
                "files are judged by themselves, without environments; give a folder, or "
                "--manifests once for each file"
            )
        if [*self.manifests, *self.lists].count(STDIN) > 1:
            return "standard input can be read once"
        return "" if self.environments or not self.deployed else "--deployed needs an environment"


def run_check(asked: Asked, workspace: Workspace, open_session: Callable[[], Session]) -> Judgement:
    """Judge what was asked for, today.

    Raises UndecidableError where the check itself fails: whatever happens in it, that is no pass
    and no refusal.
    """
    today = datetime.datetime.now(datetime.UTC).date()
    try:
        if asked.deployed:
            from tokenworks.operations.check_deployed import check_deployed

            return check_deployed(open_session(), asked.environments, today)
        if asked.manifests or asked.lists:
            return check_files(asked.manifests, asked.lists, workspace, today)
        return check_workspace(workspace, asked.environments, today)
    except TokenworksError:
        raise
    except Exception as error:
        raise UndecidableError(
            f"the check failed ({type(error).__name__}: {error}); nothing was judged, report it"
        ) from error


def check_workspace(
    workspace: Workspace, environments: Sequence[str], today: datetime.date
) -> Judgement:
    """Judge what every program of the environments would create, and the checkout's own pins.

    All programs of an environment are judged together. An environment that cannot be planned, or
    whose programs do not run, is a finding, and the others are judged all the same.
    """
    # Pulumi takes a second to import, and plain manifests need none of it.
    from tokenworks.check.pins import judge_pins
    from tokenworks.environment.load import environment_names

    judgement, judged = judge_pins(workspace), list[Resource]()
    names = tuple(environments) or environment_names(workspace.stacks)
    for name in names:
        resources, findings = _environment(workspace, name)
        judged += resources
        judgement += with_findings(judge(resources), findings)
    if not names:
        nothing = not_judged(
            "stacks", reason="holds no environment", remedy="write stacks/<environment>.yaml"
        )
        judgement = with_findings(judgement, [nothing])
    return settle(judgement, workspace, judged, today, everything=not environments)


def check_files(
    manifests: Sequence[str], lists: Sequence[str], workspace: Workspace, today: datetime.date
) -> Judgement:
    """Judge Kubernetes manifests and lists of ``{type, name, properties}``, whoever wrote them.

    All of them are judged together, as what is deployed together. Paths are files and folders,
    and ``-`` is standard input.
    """
    plain, listed = read_manifests(manifests), read_resources(lists)
    resources = [*plain.resources, *listed.resources]
    judgement = judge(resources)
    placed = tuple(plain.placed(listed.placed(finding)) for finding in judgement.findings)
    judgement = replace(judgement, findings=(*placed, *plain.findings, *listed.findings))
    return settle(judgement, workspace, resources, today, everything=False)


def settle(
    judgement: Judgement,
    workspace: Workspace,
    judged: Iterable[Resource],
    today: datetime.date,
    *,
    everything: bool,
) -> Judgement:
    """Return the judgement with the checkout's waivers applied, and themselves judged."""
    waivers = load_waivers(workspace.root / WAIVERS, RULES, today)
    return waive(judgement, waivers, judged, everything=everything)


def _environment(workspace: Workspace, name: str) -> tuple[list[Resource], list[Finding]]:
    """Return what the programs of an environment register, or why that cannot be told."""
    from tokenworks.check.places import Places
    from tokenworks.check.recorded import resources_of
    from tokenworks.operations.record import record_environment
    from tokenworks.planning import plan_environment

    file = workspace.stacks / f"{name}.yaml"
    origin = f"{workspace.stacks.name}/{file.name}"
    try:
        plan = plan_environment(workspace, name)
        recordings = record_environment(workspace, plan).values()
        return list(resources_of(recordings, origin, Places.of(file))), []
    except ConfigError as error:
        return [], [_refused(problem, name, workspace) for problem in error.problems]
    except Exception as error:
        said = str(error) if isinstance(error, TokenworksError) else repr(error)
        reason = f"cannot be run without a cloud: {said[:LONGEST_MESSAGE]}"
        remedy = "correct the program; nobody knows what it would create"
        return [], [not_judged(f"environment {name}", reason=reason, remedy=remedy, origin=origin)]


def _refused(problem: Problem, environment: str, workspace: Workspace) -> Finding:
    """Return what is wrong with an environment's files as a finding that refuses."""
    file = problem.file or workspace.stacks / f"{environment}.yaml"
    inside = file.is_relative_to(workspace.root)
    return Finding(
        rule=EVERYTHING_IS_JUDGED.name,
        severity=EVERYTHING_IS_JUDGED.severity,
        subject=f"environment {environment}",
        key=problem.key,
        given=problem.given,
        reason=problem.reason,
        remedy=problem.remedy,
        verdict=Verdict.FAIL,
        origin=str(file.relative_to(workspace.root) if inside else file),
        line=problem.line,
    )
