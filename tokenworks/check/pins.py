"""The checkout's own files: what is installed beside the programs, and how the pack is configured.

Requirements of Python and Ansible, variables of roles, and configurations of the policy pack are
judged by the same rules as resources are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from policy.documents import Document, read_documents
from policy.files import (
    ANSIBLE_REQUIREMENTS,
    ANSIBLE_VARIABLES,
    CONTENT,
    PACK_CONFIG,
    PIP_REQUIREMENTS,
)
from policy.resources import UNKNOWN, Resource
from policy.rule import Family, Finding, Verdict
from policy.waivers import in_force
from tokenworks.check.guard import RefusedError
from tokenworks.check.judge import Judgement, judge
from tokenworks.workspace import Workspace

PATTERNS: Final = {
    PIP_REQUIREMENTS: ("requirements*.lock", "requirements*.txt", "tools/*.txt"),
    ANSIBLE_REQUIREMENTS: (
        "requirements.y*ml",
        "ansible/**/requirements.y*ml",
    ),
    ANSIBLE_VARIABLES: (
        "ansible/**/defaults/**/*.y*ml",
        "ansible/**/vars/**/*.y*ml",
        "ansible/**/group_vars/**/*.y*ml",
        "ansible/**/host_vars/**/*.y*ml",
    ),
    PACK_CONFIG: ("*.json", "policy/**/*.json", "stacks/*.json", ".github/**/*.json", "ci/*.json"),
}
# What a configuration may name: each policy of the pack, and all of them (policy/pack.py).
_POLICIES: Final = frozenset({*(family.value for family in Family), "advice", "whole-stack", "all"})


@dataclass(frozen=True)
class _File:
    """One file as the resource that it is, and its document where keys have lines."""

    resource: Resource
    document: Document | None = None


def judge_pins(workspace: Workspace) -> Judgement:
    """Judge every file that says what is installed or what the pack enforces, by its name."""
    files = {file.resource.origin: file for file in _files(workspace.root)}
    judgement = judge(file.resource for file in files.values())
    placed = tuple(_placed(finding, files[finding.origin]) for finding in judgement.findings)
    return replace(judgement, findings=placed)


def refuse_pins(workspace: Workspace) -> None:
    """Stop a program whose packages are not pinned exactly; files are known at every preview.

    Raises:
        RefusedError: with every finding that nobody waived, one on a line.
    """
    found = [in_force().applied(finding) for finding in judge_pins(workspace).findings]
    refused = [one for one in found if not (one.waived or one.verdict is Verdict.WARN)]
    if refused:
        raise RefusedError("\n".join(str(finding) for finding in refused))


def _files(root: Path) -> Iterator[_File]:
    seen = set[Path]()
    for kind, patterns in PATTERNS.items():
        for path in sorted({file for pattern in patterns for file in root.glob(pattern)} - seen):
            seen.add(path)
            file = _read(kind, path, str(path.relative_to(root)))
            if file is not None:
                yield file


def _read(kind: str, path: Path, name: str) -> _File | None:
    """Read one file; one that cannot be read has content that nobody knows."""
    unreadable = _File(Resource.of(kind, name, {CONTENT: UNKNOWN}, origin=name))
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return unreadable
    if kind == PIP_REQUIREMENTS:
        return _File(Resource.of(kind, name, {CONTENT: text}, origin=name))
    documents = list(read_documents(text))
    if not documents:
        return None
    document = documents[0]
    if len(documents) > 1 or not isinstance(document, Document):
        return None if kind == PACK_CONFIG and "policy" not in path.name else unreadable
    return _of_data(kind, name, document)


def _of_data(kind: str, name: str, document: Document) -> _File | None:
    data: Any = document.data
    if kind == ANSIBLE_REQUIREMENTS and isinstance(data, list):
        data = {"roles": data}  # the older form, which is for roles alone
    if not isinstance(data, dict) or (kind == PACK_CONFIG and _POLICIES.isdisjoint(data)):
        return None
    return _File(Resource.of(kind, name, data, origin=name), document)


def _placed(finding: Finding, file: _File) -> Finding:
    """Return a finding with the line of its key."""
    if file.document is None or finding.line is not None:
        return finding
    return replace(finding, line=file.document.line_of(finding.key))
