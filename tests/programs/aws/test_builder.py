"""How Ansible reaches the builder of an image, and what must be there before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from policy.files import ANSIBLE_REQUIREMENTS
from policy.resources import Resource
from policy.rules import RULES
from tests.components.aws.graph import ROOT
from tests.components.aws.seen import cloud, example
from tests.hosts.ansible_project import pool
from tokenworks.aws.target import Target
from tokenworks.components.aws import builder as building
from tokenworks.components.aws.builder import (
    BuilderProvider,
    builder_inputs,
    wait_until_it_answers,
)
from tokenworks.errors import OperationError
from tokenworks.hosts import runner
from tokenworks.hosts.inventory import SESSION_MANAGER_PLUGIN, Pool, SessionManager, inventory
from tokenworks.hosts.operate import HostReport, PoolReport
from tokenworks.hosts.outcome import Ending, HostResult, Outcome, RunResult
from tokenworks.hosts.runner import Playbook, run_playbook
from tokenworks.platforms.aws import target

WAY = SessionManager(region="us-east-1", bucket="transfers", key_alias="alias/key")


@pytest.fixture
def builder(tmp_path: Path) -> Pool:
    plain = pool(tmp_path, "builder")
    (host,) = plain.hosts
    return replace(
        plain,
        hosts=(replace(host, address="i-0123456789abcdef0"),),
        access=replace(plain.access, session_manager=WAY),
    )


def told(builder: Pool) -> dict[str, Any]:
    listed: dict[str, Any] = inventory(builder, builder.hosts)["all"]
    return listed


def test_a_builder_is_reached_by_its_id_and_not_by_any_port(builder: Pool) -> None:
    assert told(builder)["hosts"]["builder"]["ansible_host"] == "i-0123456789abcdef0"
    said = told(builder)["vars"]
    assert said["ansible_connection"] == SESSION_MANAGER_PLUGIN
    assert said["ansible_aws_ssm_region"] == "us-east-1"
    assert said["ansible_aws_ssm_bucket_name"] == "transfers"
    assert said["ansible_aws_ssm_bucket_sse_mode"] == "aws:kms"
    assert said["ansible_become"] is True
    assert "ansible_user" not in said


def test_hosts_by_ssh_are_told_nothing_of_aws(builder: Pool) -> None:
    plain = replace(builder, access=replace(builder.access, session_manager=None))
    said = told(plain)["vars"]
    assert "ansible_connection" not in said
    assert not [name for name in said if "aws" in name]


def test_the_roles_are_told_the_same_as_on_any_host(builder: Pool) -> None:
    plain = replace(builder, access=replace(builder.access, session_manager=None))
    same = {"host_lock", "host_settings", "host_keys", "host_pool"}
    mine, theirs = told(builder)["vars"], told(plain)["vars"]
    assert {key: mine[key] for key in same} == {key: theirs[key] for key in same}


def without_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SESSION_TOOL", "no-such-program")


def test_without_the_session_tool_nothing_begins(
    builder: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_plugin(monkeypatch)
    with pytest.raises(OperationError, match=r"no-such-program.*session-manager-working-with"):
        run_playbook(
            Playbook(name="check.yml", timeout_seconds=60),
            builder,
            builder.hosts,
            watch=lambda _: None,
        )


def test_without_the_collection_it_is_said_how_to_install_it(
    builder: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runner, "SESSION_TOOL", "sh")
    monkeypatch.setattr(runner, "COLLECTIONS", tmp_path)
    with pytest.raises(OperationError, match=r"ansible-galaxy collection install -r ansible/"):
        run_playbook(
            Playbook(name="check.yml", timeout_seconds=60),
            builder,
            builder.hosts,
            watch=lambda _: None,
        )


def test_names_of_profiles_are_passed_on_and_keys_are_not(
    builder: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ansible-runner writes down everything that it is given."""
    (tmp_path / "ansible_collections" / "amazon" / "aws").mkdir(parents=True)
    monkeypatch.setattr(runner, "SESSION_TOOL", "sh")
    monkeypatch.setattr(runner, "COLLECTIONS", tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "prod")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "never")
    given = runner._variables(
        tmp_path,
        Playbook(name="check.yml", timeout_seconds=60),
        builder.access,
        "mark",
        asks=False,
    )
    assert given["AWS_PROFILE"] == "prod"
    assert "never" not in given.values()
    by_ssh = replace(builder.access, session_manager=None)
    assert "AWS_PROFILE" not in runner._variables(
        tmp_path, Playbook(name="a", timeout_seconds=60), by_ssh, "mark", asks=False
    )


def test_the_collection_is_pinned_to_one_version() -> None:
    written = yaml.safe_load((ROOT / "ansible" / "requirements.yml").read_text("utf-8"))
    (collection,) = written["collections"]
    assert collection["name"] == SESSION_MANAGER_PLUGIN.rpartition(".")[0]
    file = Resource.of(ANSIBLE_REQUIREMENTS, "requirements.yml", written)
    assert [rule for rule in RULES if rule.applies(file.type)]
    assert not [finding for rule in RULES for finding in rule.judge(file)]


class Answers:
    """An account that knows an instance after it was asked for it some times."""

    def __init__(self, after: int) -> None:
        self.after, self.asked = after, 0

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:
        assert (service, operation) == ("ssm", "describe_instance_information")
        self.asked += 1
        known = [{"PingStatus": "Online"}] if self.asked > self.after else []
        return {"InstanceInformationList": known}


def test_ansible_waits_for_the_agent_to_answer() -> None:
    account, slept = Answers(after=2), list[float]()
    wait_until_it_answers(account, "i-1", sleep=slept.append)  # type: ignore[arg-type]
    assert account.asked == 3
    assert len(slept) == 2


def test_an_agent_that_never_answers_ends_the_build() -> None:
    with pytest.raises(OperationError, match="ssmmessages"):
        wait_until_it_answers(Answers(after=9), "i-1", within_seconds=0)  # type: ignore[arg-type]


def test_another_content_is_another_builder_and_none_is_ever_changed(builder: Pool) -> None:
    provider, props = BuilderProvider(), dict[str, Any](pool={})
    assert provider.diff("i-1", props, {"pool": {"name": "other"}}).changes is False
    assert provider.read("i-1", props).outs == props


def test_a_builders_inputs_survive_their_way_through_the_engine(builder: Pool) -> None:
    plan = example()
    inputs = builder_inputs(builder, target(plan, cloud(plan)))
    assert TypeAdapter(Pool).validate_python(inputs["pool"]) == builder
    assert inputs["target"]["account"] == cloud(plan).account


class Account:
    """An account whose instance answers at once, and that notes what is asked of it."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:
        self.done.append(f"{service} {operation}")
        return {"InstanceInformationList": [{"PingStatus": "Online"}]}

    def client(self, _: str) -> Account:
        return self

    def get_waiter(self, name: str) -> Account:
        self.done.append(f"waits: {name}")
        return self

    def wait(self, **_: Any) -> None:
        pass


def report(outcome: Outcome) -> PoolReport:
    host = HostReport(
        host="builder",
        outcome=outcome,
        change_class=None,
        changes=(),
        steps=(),
        wrong=("the driver is another one",),
        proof={},
        observed={},
        message="the driver is another one",
    )
    return PoolReport(pool="builder", ending=Ending.COMPLETE, hosts=(host,))


def built(
    monkeypatch: pytest.MonkeyPatch, builder: Pool, *, verified: Outcome = Outcome.SAME
) -> list[str]:
    """Everything that a build does, in order; it ends where something fails."""
    done: list[str] = []

    def said(what: str, outcome: Outcome) -> Callable[..., PoolReport]:
        def act(*_: Any) -> PoolReport:
            done.append(what)
            return report(outcome)

        return act

    def play(playbook: Playbook, *_: Any, **__: Any) -> RunResult:
        done.append(playbook.name)
        host = HostResult(host="builder", outcome=Outcome.CHANGED, report={})
        return RunResult(ending=Ending.COMPLETE, hosts=(host,))

    def connected(found: Target) -> Account:
        done.append(f"account {found.account}")
        return Account(done)

    monkeypatch.setattr(building, "prepare_pool", said("prepare", Outcome.CHANGED))
    monkeypatch.setattr(building, "verify_pool", said("verify", verified))
    monkeypatch.setattr(building, "run_playbook", play)
    monkeypatch.setattr("tokenworks.aws.client.connect", connected)
    plan = example()
    try:
        BuilderProvider().create(builder_inputs(builder, target(plan, cloud(plan))))
    except OperationError as error:
        done.append(str(error))
    return done


def test_a_builder_is_prepared_proven_sealed_and_then_stopped(
    monkeypatch: pytest.MonkeyPatch, builder: Pool
) -> None:
    assert built(monkeypatch, builder) == [
        "account 111122223333",
        "ssm describe_instance_information",
        "prepare",
        "verify",
        "seal.yml",
        "ec2 stop_instances",
        "waits: instance_stopped",
    ]


def test_a_builder_that_is_not_as_locked_is_neither_sealed_nor_stopped(
    monkeypatch: pytest.MonkeyPatch, builder: Pool
) -> None:
    """Its image would otherwise be taken, and started by every node of the pool."""
    *before, last = built(monkeypatch, builder, verified=Outcome.FAILED)
    assert before[-1] == "verify"
    assert "the driver is another one" in last
