"""The roles as data: one shape, specifications that equal defaults, no version of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenworks.hosts.role_docs import ORDER, ROLES, document, read_yaml, specification

ROOT = ROLES.parents[1]
COLLECTIONS = ROLES.parent / "requirements.yml"
"""Pins what runs on the controller; what hosts get comes from a lock alone."""
FILES = sorted(
    {*ROLES.parent.glob("*.yml"), *ROLES.parent.glob("tasks/*.yml"), *ROLES.rglob("*.yml")}
    - {COLLECTIONS}
)
MODULES = {
    path.stem
    for name in ("library", "action_plugins")
    for path in (ROLES.parent / name).glob("*.py")
}


def tasks(entries: Any) -> Iterator[dict[str, Any]]:
    """All tasks of a file, those within blocks as well."""
    for entry in entries or []:
        if isinstance(entry, dict):
            yield entry
            for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
                yield from tasks(entry.get(key))


def test_the_documented_roles_are_those_that_are_there() -> None:
    assert set(ORDER) == {path.name for path in ROLES.iterdir()}
    plays = read_yaml(ROLES.parent / "prepare.yml")
    assert tuple(role["role"] for play in plays for role in play.get("roles", [])) == ORDER


@pytest.mark.parametrize("role", ORDER)
def test_every_role_has_the_one_shape(role: str) -> None:
    files = {str(path.relative_to(ROLES / role)) for path in (ROLES / role).rglob("*.yml")}
    phases = ("main", "preflight", "install", "configure", "verify")
    assert files == {"defaults/main.yml", "meta/argument_specs.yml"} | {
        f"tasks/{phase}.yml" for phase in phases
    }
    main = read_yaml(ROLES / role / "tasks" / "main.yml")
    assert [task["ansible.builtin.import_tasks"] for task in main] == [
        f"{phase}.yml" for phase in phases[1:]
    ]


@pytest.mark.parametrize("role", ORDER)
def test_defaults_equal_the_specification(role: str) -> None:
    options = specification(role)["options"]
    defaults = {name: o["default"] for name, o in options.items() if "default" in o}
    assert read_yaml(ROLES / role / "defaults" / "main.yml") == defaults
    assert all(
        ("default" in option) != option.get("required", False) for option in options.values()
    )
    assert all(option["description"] for option in options.values())


def test_what_a_role_uses_is_in_its_specification() -> None:
    for role in ORDER:
        options = specification(role)["options"]
        text = "".join(path.read_text() for path in (ROLES / role / "tasks").glob("*.yml"))
        own = {name for name in options if not name.startswith("host_")}
        assert own == {name for name in own if re.search(rf"\b{name}\b", text)}


def named_by(entries: Any) -> set[str]:
    """Names that tasks themselves bring: what they register, their variables and facts."""
    found: set[str] = set()
    for task in tasks(entries):
        found |= {task["register"]} if "register" in task else set()
        found |= set(task.get("vars", {})) | set(task.get("ansible.builtin.set_fact", {}))
    return found


@pytest.mark.parametrize("role", ORDER)
def test_every_variable_that_a_role_uses_is_in_its_specification(role: str) -> None:
    files = sorted((ROLES / role / "tasks").glob("*.yml"))
    brought = set().union(*(named_by(read_yaml(file)) for file in files))
    known = set(specification(role)["options"]) | brought | MODULES
    for file in files:
        lines = [
            line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")
        ]
        text = re.sub(r"/\S+", "", "\n".join(lines))
        used = set(re.findall(rf"\b(?:{role}|host)_\w+", text))
        assert used <= known, file


def test_the_documentation_is_the_one_that_is_generated() -> None:
    assert (ROOT / "docs" / "host-roles.md").read_text() == document()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROLES.parent)))
def test_no_role_has_a_version(file: Path) -> None:
    assert not re.findall(r"\b\d+\.\d+\.\d+\b|-5\d\d\b", file.read_text())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROLES.parent)))
def test_everything_that_is_asserted_says_what_to_do(file: Path) -> None:
    for task in tasks(read_yaml(file)):
        asserted = task.get("ansible.builtin.assert")
        if asserted is not None:
            assert asserted.get("fail_msg"), task["name"]
        failed = task.get("ansible.builtin.fail")
        if failed is not None:
            assert failed.get("msg"), task["name"]


def test_units_are_read_anew_and_containerd_restarted_only_where_the_plan_says_so() -> None:
    for file in FILES:
        for task in tasks(read_yaml(file)):
            systemd = task.get("ansible.builtin.systemd_service")
            if systemd is not None:
                assert "host_changes.steps" in str(task.get("when")), f"{file}: {task['name']}"


def test_nothing_becomes_root_on_the_controller() -> None:
    delegated = [task for file in FILES for task in tasks(read_yaml(file)) if "delegate_to" in task]
    assert delegated
    assert all(task["become"] is False for task in delegated)


def test_gpus_are_reset_by_a_reboot_alone() -> None:
    """A reset fails while anything holds the GPU, the persistence daemon first of all."""
    for file in FILES:
        assert not re.search(r"gpu-reset|nvidia-smi|-pm 0|rmmod|modprobe -r", file.read_text())
