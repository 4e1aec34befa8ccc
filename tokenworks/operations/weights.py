"""``tokenworks lock weights``: the manifest of a model, from a hub or from a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tokenworks.environment.values import Repository
from tokenworks.environment.weights import Manifest, read_manifest
from tokenworks.environment.weights_source import SourceUrl
from tokenworks.errors import ConfigError, OperationError, Problem
from tokenworks.files import write_whole
from tokenworks.weights.choice import chosen
from tokenworks.weights.differences import FileDifference, differences
from tokenworks.weights.folder import paths_in, summed
from tokenworks.weights.hub import Hub
from tokenworks.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class WeightsRequest:
    """Which files of which model at which commit, and who says what they are."""

    repository: str
    revision: str
    hub: str
    folder: Path | None = None
    token_file: Path | None = None
    include: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class LockedWeights:
    """A manifest, where it lies, what was left out, and how it differs from what lay there."""

    file: Path
    manifest: Manifest
    left_out: tuple[str, ...]
    differences: tuple[FileDifference, ...]


def lock_weights(
    workspace: Workspace, asked: WeightsRequest, out: Path | None, *, verify: bool, today: date
) -> LockedWeights:
    """Make a manifest; it is written unless it is only to be verified.

    Raises:
        ConfigError: repository or revision are none, or there is no manifest to verify.
        OperationError: hub or folder cannot be read, or hold nothing that an engine needs.
    """
    _refuse(asked)
    name = re.sub(r"[^a-z0-9.-]", "-", asked.repository.partition("/")[2].lower())
    file = out or workspace.stacks / "weights" / f"{name}.json"
    manifest, left = _of_folder(asked, asked.folder) if asked.folder else _of_hub(asked, today)
    if verify:
        before = _read(file, manifest)
        found = tuple(differences(before.files, manifest.files))
        return LockedWeights(file=file, manifest=manifest, left_out=left, differences=found)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, manifest_text(manifest))
    return LockedWeights(file=file, manifest=manifest, left_out=left, differences=())


def manifest_text(manifest: Manifest) -> str:
    """A manifest as it is committed: one file a line, so that a change is one line."""
    head = manifest.model_dump(include={"repository", "revision", "source"})
    files = (json.dumps(one.model_dump(), ensure_ascii=False) for one in manifest.files)
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    listed = ",\n".join(f"    {one}" for one in files)
    return "\n".join(["{", *lines, '  "files": [', listed, "  ]", "}\n"])


def _of_folder(asked: WeightsRequest, folder: Path) -> tuple[Manifest, tuple[str, ...]]:
    if re.fullmatch(r"[0-9a-f]{40}", asked.revision) is None:
        remedy = "write the 40 hexadecimal digits of the commit that the folder holds"
        reason = "is not known to a folder"
        raise ConfigError(
            [Problem(key="revision", given=asked.revision, reason=reason, remedy=remedy)]
        )
    taken, left = chosen(paths_in(folder), asked.include)
    _refuse_nothing(taken, f"folder {folder}")
    manifest = Manifest(
        repository=asked.repository,
        revision=asked.revision,
        source=f"summed here, of the files in {folder.name}",
        files=summed(folder, taken),
    )
    return manifest, left


def _of_hub(asked: WeightsRequest, today: date) -> tuple[Manifest, tuple[str, ...]]:
    token = asked.token_file.read_text("utf-8").strip() if asked.token_file else None
    hub = Hub(endpoint=asked.hub.rstrip("/"), token=token)
    commit = hub.commit(asked.repository, asked.revision)
    found = {file.path: file for file in hub.files(asked.repository, commit)}
    taken, left = chosen(found, asked.include)
    _refuse_nothing(taken, f"{asked.repository} at {commit}")
    manifest = Manifest(
        repository=asked.repository,
        revision=commit,
        source=f"{hub.endpoint}/{asked.repository}/tree/{commit} (read {today})",
        files=tuple(hub.summed(asked.repository, commit, found[path]) for path in taken),
    )
    return manifest, left


def _read(file: Path, manifest: Manifest) -> Manifest:
    """The manifest that lies there, of the same repository and commit."""
    try:
        return read_manifest(file, repository=manifest.repository, revision=manifest.revision)
    except ConfigError as error:
        raise ConfigError(
            [
                Problem(key="", file=file, reason=one.reason, remedy=one.remedy)
                for one in error.problems
            ]
        ) from error


def _refuse(asked: WeightsRequest) -> None:
    """Refuse before anything is asked what can be no model, and a token that would be seen."""
    problems = []
    for key, kind, given in (
        ("repository", Repository, asked.repository),
        ("hub", SourceUrl, asked.hub),
    ):
        try:
            TypeAdapter(kind).validate_python(given)
        except ValidationError as error:
            told = error.errors()[0].get("ctx", {})
            problems.append(
                Problem(key=key, given=given, reason=told["reason"], remedy=told["remedy"])
            )
    if asked.token_file and asked.hub.startswith("http://"):
        reason, remedy = "would see the token without TLS", "use https://"
        problems.append(Problem(key="hub", given=asked.hub, reason=reason, remedy=remedy))
    if asked.token_file and not asked.token_file.is_file():
        remedy = "name a file that holds the token alone"
        given = str(asked.token_file)
        problems.append(
            Problem(key="--token-file", given=given, reason="does not exist", remedy=remedy)
        )
    if problems:
        raise ConfigError(problems)


def _refuse_nothing(taken: tuple[str, ...], what: str) -> None:
    if not any(path.endswith(".safetensors") for path in taken):
        reason = "holds no safetensors that were asked for"
        remedy = "name another, or say with --include which files are the weights"
        raise OperationError(what, reason=reason, remedy=remedy)
