"""The checkout's own files, found by their place and judged by the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.check.guard import RefusedError
from tokenworks.check.judge import Outcome
from tokenworks.check.pins import judge_pins, refuse_pins
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
GOOD = f"pulumi==3.272.0 --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "requirements.lock").write_text(GOOD)
    return Workspace(tmp_path)


def write(workspace: Workspace, name: str, text: str) -> None:
    file = workspace.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def found(workspace: Workspace) -> list[tuple[str, int | None, str]]:
    return [(one.origin, one.line, one.rule) for one in judge_pins(workspace).findings]


def test_this_checkout_pins_what_it_installs_and_weakens_nothing() -> None:
    judgement = judge_pins(Workspace(ROOT))
    assert judgement.findings == ()
    assert judgement.judged >= 1


def test_a_checkout_without_any_requirements_is_no_pass(tmp_path: Path) -> None:
    assert judge_pins(Workspace(tmp_path)).outcome is Outcome.COULD_NOT_TELL


def test_python_requirements_are_judged_by_file_and_line(workspace: Workspace) -> None:
    write(workspace, "requirements-extra.txt", f"{GOOD}vllm==0.23.0\n")
    write(workspace, "tools/go.txt", GOOD)
    assert found(workspace) == [("requirements-extra.txt", 2, "packages-are-pinned-by-hash")]


def test_requirements_of_ansible_are_judged_by_file_and_line(workspace: Workspace) -> None:
    text = "collections:\n- {name: ansible.posix, version: 2.1.0}\n- name: a.b\n\n  version: '*'\n"
    write(workspace, "ansible/requirements.yml", text)
    assert found(workspace) == [("ansible/requirements.yml", 5, "packages-are-pinned-by-hash")]


def test_a_list_of_roles_is_the_older_form(workspace: Workspace) -> None:
    write(
        workspace, "ansible/requirements.yml", "- src: https://example.com/r.git\n  version: main\n"
    )
    ((origin, _, rule),) = found(workspace)
    assert (origin, rule) == ("ansible/requirements.yml", "sources-are-pinned-by-commit")


def test_variables_of_roles_name_whole_versions_of_drivers(workspace: Workspace) -> None:
    write(workspace, "ansible/roles/driver/defaults/main.yml", "---\nnvidia_driver_version: 580\n")
    write(workspace, "ansible/group_vars/all.yml", "nvidia_driver_version: 580.95.05\n")
    write(workspace, "ansible/roles/driver/tasks/main.yml", "- nvidia_driver_version: 580\n")
    assert found(workspace) == [
        ("ansible/roles/driver/defaults/main.yml", 2, "gpu-drivers-have-one-exact-version")
    ]


@pytest.mark.parametrize("name", ["pack.json", "policy/config.json", ".github/policy.json"])
def test_a_configuration_that_disables_the_pack_is_refused(workspace: Workspace, name: str) -> None:
    write(workspace, name, '{\n "all": "disabled"\n}\n')
    assert found(workspace) == [(name, 2, "the-pack-is-never-switched-off")]
    assert judge_pins(workspace).outcome is Outcome.REFUSED


def test_json_that_configures_nothing_is_left_alone(workspace: Workspace) -> None:
    write(workspace, "stacks/schema.json", '{"type": "object", "properties": {"all": {}}}')
    write(workspace, "broken.json", "{")
    assert found(workspace) == []


def test_a_configuration_that_cannot_be_read_may_disable_the_pack(workspace: Workspace) -> None:
    write(workspace, "policy-config.json", "{")
    ((origin, _, rule),) = found(workspace)
    assert (origin, rule) == ("policy-config.json", "the-pack-is-never-switched-off")


def test_a_file_that_cannot_be_read_is_no_pass(workspace: Workspace) -> None:
    (workspace.root / "requirements.txt").write_bytes(b"\xff\xfe")
    assert judge_pins(workspace).outcome is Outcome.COULD_NOT_TELL
    with pytest.raises(RefusedError, match="cannot be read"):
        refuse_pins(workspace)


def test_a_program_stops_at_a_loose_pin_and_names_it(workspace: Workspace) -> None:
    refuse_pins(workspace)
    write(workspace, "requirements.txt", "vllm\n")
    with pytest.raises(RefusedError, match="vllm: names no version"):
        refuse_pins(workspace)
