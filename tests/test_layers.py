"""Imports point one way, so that a decision can be read, and tested, without what acts on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = (
    ("errors", "files", "facts", "naming", "templating", "workspace"),
    ("environment", "sizing", "toolchain"),
    ("engines", "local_cluster", "weights", "images"),
    ("plan", "hosts", "local_node"),
    (
        *("planning", "render", "render_gateway", "render_routes"),
        *("render_admission", "render_budgets", "render_keys"),
    ),
    ("platforms", "components", "check", "gateway", "aws"),
    ("programs",),
    ("operations",),
    ("report",),
    ("show",),
    ("cli", "cli_aws", "cli_common", "cli_gateway", "cli_weights"),
)
WITHOUT_PULUMI = (
    "errors",
    "files",
    "facts",
    "naming",
    "templating",
    "workspace",
    "environment",
    "sizing",
    "engines",
    "plan",
    "planning",
    "render",
    "render_admission",
    "render_budgets",
    "render_gateway",
    "render_keys",
    "render_routes",
    "report",
    "toolchain",
    "local_cluster",
    "weights",
    "gateway",
    "aws",
)


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def files_of(part: str) -> list[Path]:
    folder = ROOT / "tokenworks" / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def parts() -> set[str]:
    entries = (ROOT / "tokenworks").iterdir()
    return {entry.stem for entry in entries if not entry.name.startswith("__")}


def test_every_part_has_its_place() -> None:
    assert {part for layer in LAYERS for part in layer} == parts()


@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_a_layer_imports_only_itself_and_what_is_below(number: int) -> None:
    allowed = {part for layer in LAYERS[: number + 1] for part in layer}
    for part in LAYERS[number]:
        for file in files_of(part):
            ours = (name.split(".") for name in imported(file) if name.startswith("tokenworks."))
            above = {names[1] for names in ours} - allowed
            assert not above, f"{file.relative_to(ROOT)} imports {above}"


@pytest.mark.parametrize("part", WITHOUT_PULUMI)
def test_what_decides_knows_no_pulumi(part: str) -> None:
    for file in files_of(part):
        assert not [name for name in imported(file) if name.split(".")[0].startswith("pulumi")]


def test_policies_know_nothing_of_the_toolkit() -> None:
    for file in (ROOT / "policy").rglob("*.py"):
        assert not [name for name in imported(file) if name.split(".")[0] == "tokenworks"]
