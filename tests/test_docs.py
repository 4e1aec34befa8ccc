"""The list of documents has every one of them, under its own title."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
LISTED = {
    file: title
    for title, file in re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", (DOCS / "README.md").read_text())
}
DECISIONS = sorted(file for file in (DOCS / "decisions").glob("*.md") if file.name != "README.md")


def test_every_guide_and_decision_is_listed_and_is_there() -> None:
    guides = {file.name for file in DOCS.glob("*.md")} - {"README.md"}
    assert LISTED.keys() == guides | {f"decisions/{file.name}" for file in DECISIONS}


@pytest.mark.parametrize("file", DECISIONS, ids=lambda file: file.stem)
def test_a_decision_is_listed_under_its_title(file: Path) -> None:
    title = file.read_text("utf-8").splitlines()[0].removeprefix("# ")
    assert LISTED[f"decisions/{file.name}"] == title
