"""Environment files: what is accepted, and how everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.environment.load import environment_names, load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.environment.schema import schema_text
from tokenworks.errors import ConfigError
from tokenworks.planning import resolve_loaded

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases" / "environments"
BAD = CASES / "bad"
LOCK = read_lock(ROOT / "stacks")
REFUSED = "# refused: "


def refusals(name: str, folder: Path) -> list[str]:
    """Every problem of an environment, without the file's name."""
    with pytest.raises(ConfigError) as refused:
        resolve_loaded(load_environment(name, folder), LOCK)
    return [
        str(problem).replace(f"{folder / name}.yaml:", "").strip()
        for problem in refused.value.problems
    ]


@pytest.mark.parametrize("name", environment_names(BAD))
def test_a_bad_environment_is_refused_with_exactly_the_problems_its_file_names(name: str) -> None:
    lines = (BAD / f"{name}.yaml").read_text("utf-8").splitlines()
    expected = [line.removeprefix(REFUSED) for line in lines if line.startswith(REFUSED)]
    assert expected, "the case says nothing about what it expects"
    assert refusals(name, BAD) == expected


def test_a_file_of_no_bytes_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "void.yaml").write_bytes(b"")
    assert refusals("void", tmp_path) == ["is empty; start from stacks/local.yaml."]


def test_an_unknown_environment_is_told_which_there_are() -> None:
    known = "example-aws, example-hosts, local, onenode"
    with pytest.raises(ConfigError, match=rf"nowhere is unknown; use one of: {known};"):
        load_environment("nowhere", ROOT / "stacks")


def test_settings_of_pulumi_are_no_environments(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.local-serving.yaml").write_text("encryptionsalt: x\n")
    (tmp_path / "one.yaml").write_text("platform: simulated\n")
    assert environment_names(tmp_path) == ("one",)


def test_every_environment_of_the_project_and_every_good_case_can_be_planned() -> None:
    for folder in (ROOT / "stacks", CASES / "good"):
        for name in environment_names(folder):
            assert resolve_loaded(load_environment(name, folder), LOCK).environment == name


def test_an_environment_starts_with_the_schema_that_editors_read() -> None:
    for name in environment_names(ROOT / "stacks"):
        first = (ROOT / "stacks" / f"{name}.yaml").read_text("utf-8").splitlines()[0]
        assert first == "# yaml-language-server: $schema=schema.json"


def test_the_committed_schema_is_the_one_the_sections_give() -> None:
    committed = (ROOT / "stacks" / "schema.json").read_text("utf-8")
    assert committed == schema_text(), (
        "run: python -m tokenworks.environment.schema > stacks/schema.json"
    )


def test_what_may_be_a_secret_is_never_repeated() -> None:
    for name in environment_names(BAD):
        if name.startswith("secret"):
            assert not [text for text in refusals(name, BAD) if "sk-" in text]


def test_reading_changes_nothing() -> None:
    before = {file: file.stat().st_mtime_ns for file in sorted(BAD.rglob("*"))}
    for name in environment_names(BAD):
        refusals(name, BAD)
    assert {file: file.stat().st_mtime_ns for file in sorted(BAD.rglob("*"))} == before


@pytest.mark.parametrize("name", ["state", "../local", "Local", "a" * 41, ""])
def test_a_name_that_stacks_and_folders_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"environment: .*(is reserved|is not a usable name); use"
    ):
        load_environment(name, ROOT / "stacks")
