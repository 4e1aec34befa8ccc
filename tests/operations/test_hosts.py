"""Locking hosts from the command line, and what is said of machines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.hosts import example, repository
from tests.hosts.conftest import archives, signer
from tests.hosts.repository import Signer
from tokenworks.check.recording import Recording
from tokenworks.cli import app
from tokenworks.hosts.lock_file import read_host_lock
from tokenworks.hosts.operate import HostReport, PoolReport
from tokenworks.hosts.outcome import Ending, Outcome
from tokenworks.operations.hosts import by_hand, exit_code, pools_of
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

__all__ = ["archives", "signer"]

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = Workspace(ROOT)


@pytest.fixture
def request_file(archives: Path, signer: Signer, tmp_path: Path) -> Path:
    file = tmp_path / "hosts" / "requests" / "test.yaml"
    file.parent.mkdir(parents=True)
    shutil.copytree(archives / "keys", tmp_path / "hosts" / "keys")
    write(file, repository.request(archives, signer))
    return file


def write(file: Path, fields: dict[str, object]) -> None:
    with file.open("w") as opened:
        YAML().dump(fields, opened)


def test_a_lock_is_written_and_then_verified(request_file: Path) -> None:
    done = CliRunner().invoke(app, ["lock", "hosts", str(request_file)])
    assert done.exit_code == 0, done.output
    written = request_file.parents[1] / "test.yaml"
    assert done.output == f"written: {written}\n"
    assert read_host_lock(written).driver.version == repository.DRIVER
    again = CliRunner().invoke(app, ["lock", "hosts", str(request_file), "--verify"])
    assert again.exit_code == 0, again.output
    assert again.output == f"{written}: the same\n"


def test_a_lock_that_differs_is_shown_and_not_touched(
    request_file: Path, archives: Path, signer: Signer
) -> None:
    CliRunner().invoke(app, ["lock", "hosts", str(request_file)])
    written = request_file.parents[1] / "test.yaml"
    before = written.read_text()
    driver = {"version": "580.126.20", "modules": "open", "archive": "cuda"}
    write(request_file, repository.request(archives, signer, driver=driver))
    done = CliRunner().invoke(app, ["lock", "hosts", str(request_file), "--verify"])
    assert done.exit_code == 1
    assert "nvidia-utils-580" in done.output
    assert "gcc-13" not in done.output
    assert written.read_text() == before
    told = CliRunner().invoke(app, ["lock", "hosts", str(request_file), "--verify", "--json"])
    assert told.exit_code == 1
    whats = {one["what"] for one in json.loads(told.output)[0]["differences"]}
    assert {"driver", "nvidia-modprobe"} <= whats


def test_a_lock_that_was_never_made_cannot_be_verified(request_file: Path) -> None:
    done = CliRunner().invoke(app, ["lock", "hosts", str(request_file), "--verify"])
    assert done.exit_code == 1
    assert "does not exist; run `tokenworks lock hosts" in done.output


def test_nothing_is_written_where_something_cannot_be_locked(
    request_file: Path, archives: Path, signer: Signer
) -> None:
    driver = {"version": "620.10.01", "modules": "open", "archive": "cuda"}
    write(request_file, repository.request(archives, signer, driver=driver))
    done = CliRunner().invoke(app, ["lock", "hosts", str(request_file)])
    assert done.exit_code == 1
    assert not (request_file.parents[1] / "test.yaml").exists()


def test_an_environment_without_machines_has_no_lock_to_make() -> None:
    done = CliRunner().invoke(app, ["lock", "hosts", "local"])
    assert done.exit_code == 1
    assert "names no host lock" in done.output
    stranger = CliRunner().invoke(app, ["lock", "hosts", "nowhere"])
    assert "is neither a file nor an environment" in stranger.output


def test_the_lock_of_the_example_is_what_its_request_gives(tmp_path: Path) -> None:
    committed = read_host_lock(ROOT / "stacks" / "hosts" / f"{example.NAME}.yaml")
    made = example.resolved(tmp_path)
    assert committed.versions == made.versions
    assert committed.repositories == made.repositories


def test_the_example_tells_ansible_of_every_machine_and_its_lock() -> None:
    (pool,) = pools_of(WORKSPACE, "example-hosts")
    assert [host.name for host in pool.hosts] == ["gpu-a-1", "gpu-b-1"]
    assert {host.jump_host for host in pool.hosts} == {"ops@jump.example.org"}
    assert pool.settings.expected_gpus == 8
    assert "BEGIN PGP PUBLIC KEY" in pool.keys["stand-in.asc"]


def test_an_environment_without_machines_is_refused() -> None:
    done = CliRunner().invoke(app, ["hosts", "check", "local"])
    assert done.exit_code == 1
    assert "platform: simulated has no machines to log in to" in done.output


def test_commands_by_hand_name_files_that_are_there(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    text = by_hand(Workspace(tmp_path), "example-hosts", "check.yml")
    folder = tmp_path / ".tokenworks" / "example-hosts" / "hosts" / "h100"
    assert f"-i {folder / 'hosts.json'} check.yml" in text
    assert json.loads((folder / "hosts.json").read_text())["all"]["vars"]["host_pool"] == "h100"
    config = (folder / "ssh_config").read_text()
    assert "StrictHostKeyChecking yes" in config
    assert f'UserKnownHostsFile "{folder / "known_hosts"}"' in config
    keys = (ROOT / "stacks" / "example-hosts" / "known_hosts").read_text()
    assert (folder / "known_hosts").read_text() == keys


def test_the_programs_of_the_example_prepare_label_and_serve() -> None:
    plan = plan_environment(WORKSPACE, "example-hosts")
    recorded = record_environment(WORKSPACE, plan)
    cluster = {one.name: one for one in recorded["cluster"].resources}
    assert cluster["h100-hosts"].type == "pulumi-python:dynamic/hosts:Pool"
    labels = at(cluster["gpu-a-1-labels"].inputs, "metadata", "labels")
    assert labels == {
        "tokenworks.dev/environment": "example-hosts",
        "tokenworks.dev/node-pool": "h100",
    }
    assert cluster["nvidia"].inputs["handler"] == "nvidia"
    (model,) = plan.models
    pods = at(serving(recorded), "spec", "template", "spec")
    assert pods["runtimeClassName"] == model.runtime_class.value == "nvidia"
    assert "default stays runc" in model.runtime_class.because
    assert not [one for one in cluster.values() if one.type.endswith("StorageClass")]
    assert not [one for one in cluster.values() if one.type.endswith(":Node")]
    service = next(one for one in recorded["serving"].resources if one.name == "gateway-service")
    assert at(service.inputs, "spec", "loadBalancerClass") == "kube-vip.io/kube-vip-class"


def serving(recorded: Mapping[str, Recording]) -> Any:
    """Inputs of the one engine's Deployment."""
    resources = recorded["serving"].resources
    return next(one.inputs for one in resources if one.name == "qwen3-32b-deployment")


def at(inputs: Mapping[str, Any], *path: str) -> Any:
    """The value at a path of keys."""
    found: Any = inputs
    for key in path:
        found = found[key]
    return found


def report(*outcomes: Outcome, ending: Ending = Ending.COMPLETE) -> PoolReport:
    hosts = tuple(
        HostReport(
            host=f"gpu-{number}",
            outcome=outcome,
            change_class="nothing",
            changes=(),
            steps=(),
            wrong=(),
            proof={},
            observed={"kernel": "6.8.0-87-generic"},
        )
        for number, outcome in enumerate(outcomes)
    )
    return PoolReport(pool="h100", ending=ending, hosts=hosts)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((Outcome.SAME, Outcome.CHANGED), 0),
        ((Outcome.SAME, Outcome.UNREACHABLE), 3),
        ((Outcome.NOT_PROCESSED,), 3),
        ((Outcome.CUT_OFF,), 3),
        ((Outcome.FAILED, Outcome.UNREACHABLE), 1),
    ],
)
def test_a_host_that_could_not_be_told_is_never_counted_as_good(
    outcomes: tuple[Outcome, ...], code: int
) -> None:
    (pool,) = pools_of(WORKSPACE, "example-hosts")
    assert exit_code((report(*outcomes),), (pool,)) == code


def test_a_run_that_failed_before_it_looked_tells_nothing_of_the_host() -> None:
    """As where the cluster does not answer; what is known to be bad elsewhere counts first."""
    (pool,) = pools_of(WORKSPACE, "example-hosts")
    failed = report(Outcome.FAILED, Outcome.FAILED)
    unread = replace(failed.hosts[0], observed={})
    for hosts, code in (((unread,), 3), ((unread, failed.hosts[1]), 1)):
        assert exit_code((replace(failed, hosts=hosts),), (pool,)) == code


def test_a_check_that_broke_is_not_one_that_failed() -> None:
    (pool,) = pools_of(WORKSPACE, "example-hosts")
    for status, code in ((1, 1), (3, 3)):
        failed = report(Outcome.FAILED)
        host = replace(failed.hosts[0], proof={"exit_status": status})
        assert exit_code((replace(failed, hosts=(host,)),), (pool,)) == code


def test_pools_that_were_never_reached_are_not_good() -> None:
    (pool,) = pools_of(WORKSPACE, "example-hosts")
    assert exit_code((report(Outcome.SAME),), (pool, pool)) == 3
    assert exit_code((report(Outcome.SAME, ending=Ending.TIMEOUT),), (pool,)) == 3


@pytest.mark.parametrize("outcome", [Outcome.SAME, Outcome.FAILED, Outcome.UNREACHABLE])
@pytest.mark.parametrize("answer", ["y", "n"])
def test_one_bad_machine_keeps_nobody_from_preparing_the_others(
    answer: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs: list[str] = []

    def saying(verb: str, found: PoolReport) -> Any:
        return lambda *_: verbs.append(verb) or found  # type: ignore[func-returns-value]

    seen, done = report(Outcome.SAME, outcome), report(Outcome.CHANGED, Outcome.SAME)
    monkeypatch.setattr("tokenworks.hosts.operate.check_pool", saying("check", seen))
    monkeypatch.setattr("tokenworks.hosts.operate.prepare_pool", saying("prepare", done))
    ran = CliRunner().invoke(app, ["hosts", "prepare", "example-hosts"], input=f"{answer}\n")
    agreed = answer == "y"
    assert verbs == ["check", *(["prepare"] if agreed else [])]
    assert ran.exit_code == (0 if agreed else 1)
    assert ("Some machines cannot be prepared" in ran.output) is (outcome is not Outcome.SAME)
