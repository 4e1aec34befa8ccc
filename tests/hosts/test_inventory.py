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
from tokenworks.hosts.inventory import Access, Host, Pool, digest, inventory, ssh_config
from tokenworks.hosts.settings import HostSettings

HOSTS = Path(__file__).resolve().parents[2] / "tokenworks" / "hosts"
AWAY = Host(name="gpu-3", address="10.0.0.3", failure_domain="rack-b", jump_host="ops@jump:2222")


@pytest.fixture
def made(tmp_path: Path) -> Pool:
    plain = pool(tmp_path, "gpu-1", "gpu-2")
    access = Access(user="ops", known_hosts=tmp_path / "known hosts", key_file="~/.ssh/gpu")
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
    found = effective(ssh_config(made.access, made.hosts), "127.0.0.1", tmp_path)
    assert found["stricthostkeychecking"] == "true"
    assert found["batchmode"] == "yes"
    assert found["userknownhostsfile"].strip('"') == str(made.access.known_hosts)
    assert found["globalknownhostsfile"] == "none"
    assert found["identityfile"] == "~/.ssh/gpu"
    assert found["identitiesonly"] == "yes"
    assert "proxyjump" not in found


def test_ssh_goes_over_the_jump_host_of_a_machine_and_of_no_other(
    made: Pool, tmp_path: Path
) -> None:
    config = ssh_config(made.access, made.hosts)
    assert effective(config, "10.0.0.3", tmp_path)["proxyjump"] == "ops@jump:2222"


def test_without_a_key_file_the_agent_is_asked(made: Pool) -> None:
    config = ssh_config(replace(made.access, key_file=None), made.hosts)
    assert "Identit" not in config


def test_whatever_decides_a_run_changes_the_digest(made: Pool, tmp_path: Path) -> None:
    roles = tmp_path / "roles"
    (roles / "base").mkdir(parents=True)
    (roles / "base" / "main.yml").write_text("one")
    before = digest(made, roles)
    assert digest(made, roles) == before
    others = [
        replace(made, lock=samples.lock(kernel="6.8.0-90-generic")),
        replace(made, settings=HostSettings(expected_gpus=4)),
        replace(made, hosts=made.hosts[:2]),
        replace(made, access=replace(made.access, user="root")),
        replace(made, keys={"a.asc": "another key"}),
        replace(made, hosts=(*made.hosts[:2], replace(AWAY, jump_host="elsewhere"))),
    ]
    digests = {digest(other, roles) for other in others}
    assert len(digests | {before}) == len(others) + 1
    (roles / "base" / "main.yml").write_text("two")
    assert digest(made, roles) not in digests | {before}


def test_what_python_compiles_beside_roles_changes_nothing(made: Pool, tmp_path: Path) -> None:
    before = digest(made, tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "host_state.pyc").write_bytes(b"compiled")
    assert digest(made, tmp_path) == before


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
