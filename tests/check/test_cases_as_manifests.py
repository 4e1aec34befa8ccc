"""The case files of every rule, written as somebody else's manifests and given to the check."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.objects import is_kubernetes
from policy.resources import UNKNOWN
from tests.policy import policy_cases
from tests.policy.policy_cases import NAME, Case
from tokenworks.operations.check import check_files
from tokenworks.workspace import Workspace

TODAY = datetime.date(2026, 5, 4)


def is_object(type_: str, properties: dict[str, Any]) -> bool:
    """Whether kubectl would take it: charts and component types are none, and Patches neither."""
    kind = type_.rpartition(":")[2]
    written = properties.get("kind", kind) == kind
    rendered = type_.startswith(("kubernetes:helm.sh", "kubernetes:yaml", "kubernetes:kustomize"))
    plain = is_kubernetes(type_) and type_.count(":") == 2 and not rendered
    return plain and not kind.endswith(("Patch", "List")) and written


def is_known(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return all(map(is_known, value)) if isinstance(value, list) else value is not UNKNOWN


def suits(case: Case) -> bool:
    others = [(one["type"], one["properties"]) for one in case.among or ()]
    everything = [(case.type, case.properties), *others]
    # A manifest is all that is deployed, so that a case which knows nothing of the rest is none.
    complete = case.among is not None or not case.rule.joins
    whole = all(is_object(type_, raw) and is_known(raw) for type_, raw in everything)
    return complete and whole and not case.ignored and not case.parent


CASES = [case for case in policy_cases.all_cases() if suits(case)]


def manifest(type_: str, properties: dict[str, Any], name: str) -> dict[str, Any]:
    _, version, kind = type_.split(":")
    body = {"apiVersion": version.removeprefix("core/"), "kind": kind, **properties}
    metadata = body.get("metadata") or {}
    return {**body, "metadata": {"name": name, **metadata}}


def manifests(case: Case) -> list[dict[str, Any]]:
    others = (manifest(one["type"], one["properties"], "other") for one in case.among or ())
    return [manifest(case.type, case.properties, NAME), *others]


def subject(type_: str, metadata: dict[str, Any]) -> str:
    name = metadata.get("name") or metadata["generateName"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{type_} {place}{name}"


def test_there_are_cases_of_most_rules() -> None:
    assert len({case.rule.name for case in CASES}) >= 10


@pytest.mark.parametrize("form", ["yaml", "json list"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_finds_in_a_manifest_what_the_case_says(
    case: Case, form: str, tmp_path: Path
) -> None:
    written = manifests(case)
    file = tmp_path / ("all.yaml" if form == "yaml" else "all.json")
    if form == "yaml":
        file.write_text(yaml.safe_dump_all(written))
    else:
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": written}))
    judgement = check_files([str(file)], [], Workspace(tmp_path), TODAY)
    whose = subject(case.type, written[0]["metadata"])
    found = [one for one in judgement.findings if one.rule == case.rule.name]
    own = [one for one in found if one.subject == whose]
    assert all(one.origin == str(file) and one.line is not None for one in found)
    case.check(sorted(own, key=lambda finding: finding.key))
