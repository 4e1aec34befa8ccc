"""Python requirement files: every line one exact version, with hashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from policy.rule import Fault
from policy.sources import is_of_git, names_a_commit

_HASH: Final = re.compile(
    r"--hash=(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
)
_COMMENT: Final = re.compile(r"(?:^|\s+)#.*$")
_PIN_REMEDY: Final = "write name==version, as pip-compile --generate-hashes does"
_HASH_REMEDY: Final = "add --hash=sha256:<64 hex digits>, as pip-compile --generate-hashes does"


@dataclass(frozen=True, kw_only=True)
class PipLine:
    """One requirement of a pip file, its options, and the number of its first line."""

    line: int
    requirement: str
    options: str

    @property
    def name(self) -> str:
        """The name alone: an address that follows it may carry credentials."""
        match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*(?=$|[^A-Za-z0-9._:/+-])", self.requirement)
        return match.group() if match else ""


def pip_lines(text: str) -> Iterator[PipLine]:
    """Yield each requirement of a pip file.

    The format is pip's (pip.pypa.io/en/stable/reference/requirements-file-format): backslashes
    join lines, options such as ``--index-url`` or ``-r`` are no requirements.
    """
    for line, content in _logical_lines(text):
        words, _, options = content.partition(" --")
        yield PipLine(line=line, requirement=words.strip(), options=f"--{options}")


def pip_faults(text: str) -> Iterator[Fault]:
    """Yield a fault for each requirement of a pip file that has no ``==`` or no hash."""
    for line in pip_lines(text):
        for reason, remedy in _why_loose(line.requirement, line.options):
            yield Fault(key=line.name, reason=reason, remedy=remedy, line=line.line)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield requirements with the number of their first line; comments and options are left out."""
    start = 1
    parts: list[str] = []
    for line_number, raw in enumerate([*text.splitlines(), ""], start=1):
        if not parts:
            start = line_number
        line = _COMMENT.sub("", raw).strip()
        parts.append(line.removesuffix("\\").strip())
        if line.endswith("\\"):
            continue
        content, parts = " ".join(filter(None, parts)), []
        if content and (not content.startswith("-") or _is_editable(content)):
            yield start, content


def _is_editable(content: str) -> bool:
    return content.startswith(("-e", "--editable"))


def _why_loose(requirement: str, options: str) -> Iterator[tuple[str, str]]:
    if is_of_git(requirement) and names_a_commit(requirement):
        return  # git makes a commit's name from its files, as a hash is made
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        yield "is not a named requirement with one version", _PIN_REMEDY
        return
    clauses = list(parsed.specifier)
    exact = len(clauses) == 1 and clauses[0].operator in {"==", "==="}
    if not exact or clauses[0].version.endswith(".*"):
        given = f"asks for {parsed.specifier}" if clauses else "names no version"
        yield f"{given}, where one exact version is needed", _PIN_REMEDY
    if not _HASH.search(options):
        yield "has no hash, so that its files may change", _HASH_REMEDY
