"""What Ansible is told of a pool, and that everything which decides a run changes its digest."""

from __future__ import annotations

import ast
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts import samples
from tests.hosts.ansible_project import pool
from tokenworks.hosts.inventory import (
    Access,
    Host,
    Pool,
    digest,
    inventory,
    role_variables,
    ssh_config,
)
from tokenworks.hosts.provider import pool_inputs
from tokenworks.hosts.role_docs import ORDER, specification
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.sources import CHECKOUT
from tokenworks.planning import plan_environment
from tokenworks.platforms.hosts import host_pool
from tokenworks.workspace import Workspace

HOSTS = Path(__file__).resolve().parents[2] / "tokenworks" / "hosts"
AWAY = Host(name="gpu-3", address="10.0.0.3", failure_domain="rack-b", jump_host="ops@jump:2222")


@pytest.fixture
def made(tmp_path: Path) -> Pool:
    plain = pool(tmp_path, "gpu-1", "gpu-2")
    access = Access(user="ops", known_hosts="gpu-1 ssh-ed25519 AAAA\n", key_file="~/.ssh/gpu")
    return replace(plain, hosts=(*plain.hosts, AWAY), access=access)


def test_every_host_has_its_interpreter_named_and_strangers_have_to_ask_for_root(
    made: Pool,
) -> None:
    told = inventory(made, made.hosts)["all"]
    assert list(told["hosts"]) == ["gpu-1", "gpu-2", "gpu-3"]
    assert told["hosts"]["gpu-3"]["ansible_host"] == "10.0.0.3"
    assert told["vars"]["ansible_python_interpreter"] == "/usr/bin/python3"
    assert told["vars"]["ansible_become"] is True
    assert told["vars"]["host_lock"]["kernel"] == samples.KERNEL
    root = replace(made, access=replace(made.access, user="root"))
    assert inventory(root, root.hosts)["all"]["vars"]["ansible_become"] is False


def test_a_run_may_take_as_long_as_all_its_failure_domains(made: Pool) -> None:
    turn = made.settings.turn_timeout_seconds
    assert made.prepare_timeout_seconds == 3 * turn
    together = tuple(replace(host, failure_domain="rack-b") for host in made.hosts)
    assert replace(made, hosts=together).prepare_timeout_seconds == turn


def test_what_a_pool_asks_of_roles_reaches_them_under_their_names(made: Pool) -> None:
    asked = HostSettings(
        storage_modules=("nfs",), package_lock_timeout_seconds=5, reboot_timeout_seconds=7
    )
    told = inventory(replace(made, settings=asked), made.hosts)["all"]["vars"]
    assert told["storage_client_modules"] == ["nfs"]
    assert told["base_lock_timeout_seconds"] == 5
    assert told["gpu_driver_reboot_timeout_seconds"] == 7


def test_settings_are_by_default_what_the_roles_have_by_default() -> None:
    options = {name: o for role in ORDER for name, o in specification(role)["options"].items()}
    for name, value in role_variables(HostSettings()).items():
        assert options[name]["default"] == value, name


INTERNAL = {
    "gpu_driver_boot_timeout_seconds",
    "gpu_driver_library_users",
    "kubelet_gate_arguments",
    "kubelet_gate_command",
}
"""How roles do what they do; nothing that one pool wants otherwise than another."""


def test_every_variable_of_a_role_can_be_set_for_a_pool() -> None:
    options = {name for role in ORDER for name in specification(role)["options"]}
    own = {name for name in options if not name.startswith("host_")}
    assert own == set(role_variables(HostSettings())) | INTERNAL


def test_an_inventory_is_plain_json(made: Pool) -> None:
    assert json.loads(json.dumps(inventory(made, made.hosts))) == inventory(made, made.hosts)


def effective(config: str, host: str, folder: Path) -> dict[str, str]:
    """What OpenSSH itself makes of a configuration for one host."""
    file = folder / "ssh_config"
    file.write_text(config)
    done = subprocess.run(
        ["ssh", "-G", "-F", str(file), host],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_ssh_checks_host_keys_and_asks_nobody(made: Pool, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known hosts"
    found = effective(ssh_config(made.access, made.hosts, known_hosts), "127.0.0.1", tmp_path)
    assert found["stricthostkeychecking"] == "true"
    assert found["batchmode"] == "yes"
    assert found["userknownhostsfile"].strip('"') == str(known_hosts)
    assert found["globalknownhostsfile"] == "none"
    assert found["identityfile"] == "~/.ssh/gpu"
    assert found["identitiesonly"] == "yes"
    assert "proxyjump" not in found


def test_ssh_goes_over_the_jump_host_of_a_machine_and_of_no_other(
    made: Pool, tmp_path: Path
) -> None:
    config = ssh_config(made.access, made.hosts, tmp_path / "known_hosts")
    assert effective(config, "10.0.0.3", tmp_path)["proxyjump"] == "ops@jump:2222"


def test_without_a_key_file_the_agent_is_asked(made: Pool, tmp_path: Path) -> None:
    access = replace(made.access, key_file=None)
    config = ssh_config(access, made.hosts, tmp_path / "known_hosts")
    assert "Identit" not in config


def test_whatever_decides_a_run_changes_the_digest(made: Pool) -> None:
    before = digest(made, CHECKOUT)
    others = [
        replace(made, lock=samples.lock(kernel="6.8.0-90-generic")),
        replace(made, settings=HostSettings(expected_gpus=4)),
        replace(made, hosts=made.hosts[:2]),
        replace(made, access=replace(made.access, user="root")),
        replace(made, access=replace(made.access, known_hosts="gpu-1 ssh-ed25519 AAAB\n")),
        replace(made, access=replace(made.access, key_file=None)),
        replace(made, keys={"a.asc": "another key"}),
        replace(made, hosts=(*made.hosts[:2], replace(AWAY, jump_host="elsewhere"))),
    ]
    digests = {digest(other, CHECKOUT) for other in others}
    assert len(digests | {before}) == len(others) + 1


def test_the_digest_is_over_the_files_that_decide(made: Pool, tmp_path: Path) -> None:
    (tmp_path / "ansible").mkdir()
    (tmp_path / "ansible" / "prepare.yml").write_text("one")
    before = digest(made, tmp_path)
    (tmp_path / "ansible" / "prepare.yml").write_text("two")
    assert digest(made, tmp_path) != before


def test_nothing_of_a_pool_names_the_checkout() -> None:
    """Its inputs are state: from two checkouts they are the same, to the last byte."""
    workspace = Workspace(CHECKOUT)
    plan = plan_environment(workspace, "example-hosts")
    inputs = pool_inputs(host_pool(workspace, plan, plan.pools[0]))
    assert str(CHECKOUT) not in json.dumps(inputs)
    known = (CHECKOUT / "stacks" / "example-hosts" / "known_hosts").read_text()
    assert inputs["pool"]["access"]["known_hosts"] == known


def test_only_the_provider_knows_pulumi() -> None:
    for file in HOSTS.glob("*.py"):
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            for name in _imported(node)
        }
        assert ("pulumi" in names) == (file.name == "provider.py"), file.name


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
