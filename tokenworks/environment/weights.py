"""Weight manifests: every file of a model with its size and SHA-256 sum."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, Strict

from tokenworks.environment.json_file import read_json, refused
from tokenworks.environment.section import Section
from tokenworks.environment.values import Repository, Revision, matching

Sha256 = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]

_PART = r"(?!\.{1,2}(/|$))[^/\\\x00-\x1f\x7f]+"
FilePath = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            rf"{_PART}(/{_PART})*",
            "is no path below the model's folder",
            "write it relative to that folder, without . and .., and with / between names",
        )
    ),
]


class WeightFile(Section):
    """One file: its path below the model's folder, its size in bytes, its sum."""

    path: FilePath
    bytes: Annotated[int, Field(strict=True, ge=0)]
    sha256: Sha256


class Manifest(Section):
    """Everything a model's folder holds, no more and no less."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: Repository
    revision: Revision
    source: Annotated[str, Field(min_length=1)]
    files: Annotated[tuple[WeightFile, ...], Field(min_length=1)]

    @property
    def total_bytes(self) -> int:
        """Size of all files together."""
        return sum(file.bytes for file in self.files)

    @property
    def tensor_bytes(self) -> int:
        """Size of the files that an engine loads: safetensors at the top of the folder."""
        loaded = (file for file in self.files if re.fullmatch(r"[^/]+\.safetensors", file.path))
        return sum(file.bytes for file in loaded)

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted list of sums: the identity of these weights."""
        return hashlib.sha256(self.sums().encode()).hexdigest()

    def sums(self) -> str:
        """Sums in the format of ``sha256sum``, sorted by path."""
        files = sorted(self.files, key=lambda file: file.path)
        return "".join(f"{file.sha256}  {file.path}\n" for file in files)


def read_manifest(file: Path, *, repository: str, revision: str) -> Manifest:
    """Read a manifest and hold it against the repository and revision it must describe.

    Raises:
        ConfigError: missing, unreadable, incomplete, or of other weights than asked for.
    """
    missing = f"make it with `tokenworks lock weights {repository} {revision}`"
    manifest = read_json(file, Manifest, missing=missing)
    if (manifest.repository, manifest.revision) != (repository, revision):
        described = f"{manifest.repository} at {manifest.revision}"
        raise refused(f"describes {described}", f"use a manifest of {repository} at {revision}")
    paths = [entry.path for entry in manifest.files]
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise refused(f"lists {doubled[0]} twice", "keep one entry for each file")
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    if both := sorted(folders & set(paths)):
        raise refused(f"lists {both[0]} as a file and a folder", "correct the paths")
    return manifest
