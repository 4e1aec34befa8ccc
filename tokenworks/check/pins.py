"""The checkout's own pins: what is installed beside the programs, judged by the same rules."""

from __future__ import annotations

from tokenworks.check.guard import RefusedError
from tokenworks.check.judge import Judgement, judge_requirement_files
from tokenworks.workspace import Workspace

PATTERNS = ("requirements*.lock", "requirements*.txt", "tools/*.txt")


def judge_pins(workspace: Workspace) -> Judgement:
    """Judge every file that says which packages are installed, by name of the file."""
    files = sorted(file for pattern in PATTERNS for file in workspace.root.glob(pattern))
    return judge_requirement_files(
        (str(file.relative_to(workspace.root)), file.read_text("utf-8")) for file in files
    )


def refuse_pins(workspace: Workspace) -> None:
    """Stop a program whose packages are not pinned exactly.

    Raises:
        RefusedError: with every finding, one on a line.
    """
    findings = judge_pins(workspace).findings
    if findings:
        raise RefusedError("\n".join(str(finding) for finding in findings))
