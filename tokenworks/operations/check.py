"""The pull-request check: environments of a checkout, plain manifests, lists of resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tokenworks.check.judge import (
    Judgement,
    judge,
    judge_recorded,
    resources_from_list,
    resources_from_manifests,
)
from tokenworks.check.pins import judge_pins
from tokenworks.environment.load import environment_names
from tokenworks.errors import ConfigError, Problem
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


def check_workspace(workspace: Workspace, environments: Sequence[str]) -> Judgement:
    """Judge what every program of the environments would create, and the checkout's own pins."""
    judgement = judge_pins(workspace)
    for name in environments or environment_names(workspace.stacks):
        plan = plan_environment(workspace, name)
        for recording in record_environment(workspace, plan).values():
            judgement += judge_recorded(recording)
    return judgement


def check_manifests(path: Path) -> Judgement:
    """Judge Kubernetes manifests in a file or below a folder, whoever wrote them."""
    files = [path] if path.is_file() else _manifests_below(path)
    resources = (r for file in files for r in resources_from_manifests(_documents(file), str(file)))
    return judge(resources)


def check_resources(file: Path) -> Judgement:
    """Judge a JSON list of ``{type, name, properties}``."""
    try:
        listed = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(file, error, "make it a JSON list of resources") from error
    return judge(resources_from_list(listed, str(file)))


def _manifests_below(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.suffix in MANIFEST_SUFFIXES)
    return sorted(file for file in files if file.is_file())


def _documents(file: Path) -> Iterator[Mapping[str, object]]:
    try:
        documents = list(YAML(typ="safe", pure=True).load_all(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise _unreadable(file, error, "make it YAML or JSON") from error
    yield from (document for document in documents if document is not None)


def _unreadable(file: Path, error: Exception, remedy: str) -> ConfigError:
    reason = f"cannot be read ({error})"
    return ConfigError([Problem(key="", reason=reason, remedy=remedy, file=file)])
