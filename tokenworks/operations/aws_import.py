"""The import plan of an environment: what its programs register, matched with what exists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tokenworks.aws.client import Cloud
from tokenworks.aws.import_plan import Expected, ImportPlan, Unmatched, plan_import, strangers
from tokenworks.aws.import_read import read_existing
from tokenworks.check.recording import RecordedResource, Recording
from tokenworks.operations.record import record_environment
from tokenworks.plan.types import Plan
from tokenworks.workspace import Workspace, stack_name


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The plan of each stack in order, and what is ours and in no program."""

    plans: tuple[ImportPlan, ...]
    strangers: tuple[Unmatched, ...]


def plan_adoption(workspace: Workspace, plan: Plan, cloud: Cloud) -> Adoption:
    """What could be adopted by every stack; nothing is changed.

    Raises:
        OperationError: something could not be listed.
    """
    return match(record_environment(workspace, plan), plan.environment, cloud)


def match(recordings: dict[str, Recording], environment: str, cloud: Cloud) -> Adoption:
    """Match recordings by program with what exists in the account."""
    existing = read_existing(cloud)
    plans: list[ImportPlan] = []
    known: dict[str, str] = {}
    for program, recording in recordings.items():
        expected = [_expected(one) for one in recording.resources]
        plans.append(plan_import(stack_name(environment, program), expected, existing, known))
        known |= plans[-1].real()
    return Adoption(plans=tuple(plans), strangers=strangers(plans, existing))


def write_files(adoption: Adoption, folder: Path) -> list[Path]:
    """Write what ``pulumi import --file`` reads, one file a stack that has something to adopt."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for plan in adoption.plans:
        if plan.matches:
            file = folder / f"{plan.stack}.import.json"
            file.write_text(json.dumps(plan.file(), indent=2) + "\n", "utf-8")
            files.append(file)
    return files


def _expected(recorded: RecordedResource) -> Expected:
    return Expected(
        type=recorded.type,
        name=recorded.name,
        urn=recorded.urn,
        parent=recorded.parent,
        provider=recorded.options.provider if recorded.type.startswith("aws:") else "",
        custom=recorded.custom,
        inputs=recorded.inputs,
        known_as=recorded.known_as,
    )
