"""State in a bucket, with the real Pulumi against a moto server: kept, locked, lost, had back."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.aws_fixtures import client
from tests.operations.aws.shop import Shop
from tokenworks.errors import OperationError
from tokenworks.operations import stacks
from tokenworks.operations.backends import state_key
from tokenworks.operations.session import Session

pytestmark = pytest.mark.cluster

STACK = "shop-network"
KEY = state_key(STACK)


def bring_up(session: Session, *names: str) -> None:
    session.stacks.open(STACK)
    session.stacks.pulumi("config", "set", "names", json.dumps(names), "--stack", STACK)
    session.stacks.update(STACK, planned=None, refresh=False)


def names(session: Session) -> list[str]:
    resources = session.stacks.backend.deployment(STACK).get("resources") or []
    return sorted(one["urn"].rpartition("::")[2] for one in resources if "Thing" in one["type"])


def objects() -> list[str]:
    found = client("s3").list_objects_v2(Bucket="shop-state").get("Contents") or []
    return [each["Key"] for each in found]


def test_a_stacks_state_and_secrets_are_in_the_bucket_under_the_key(session: Session) -> None:
    bring_up(session, "one")
    assert session.stacks.names() == (STACK,)
    assert names(session) == ["one"]
    assert KEY in objects()
    assert "never in the open" not in json.dumps(session.stacks.backend.deployment(STACK))
    settings = session.workspace.settings(STACK).read_text("utf-8")
    assert "secretsprovider: awskms://alias/shop-state?region=us-east-1" in settings
    assert not session.workspace.state.joinpath(".pulumi").exists()


def test_a_shell_that_sources_its_file_works_on_the_bucket(session: Session) -> None:
    file = session.workspace.machine / "shop" / "env"
    text = file.read_text("utf-8")
    assert "PULUMI_BACKEND_URL='s3://shop-state?region=us-east-1'" in text
    assert "SECRET" not in text
    assert "PASSPHRASE=" not in text


def test_a_lost_state_is_had_back_from_the_buckets_versions(session: Session, shop: Shop) -> None:
    bring_up(session, "one", "two")
    client("s3").delete_object(Bucket="shop-state", Key=KEY)
    assert names(session) == []
    listed = shop.run("aws", "versions", "shop", "network", "--json")
    versions: list[dict[str, Any]] = json.loads(listed.stdout)
    assert versions[0]["deleted"]
    good = next(each for each in versions if each["resources"])
    done = shop.run("aws", "restore", "shop", "network", good["id"], "--yes")
    assert done.exit_code == 0, done.output
    assert names(session) == ["one", "two"]
    assert not session.stacks.update(STACK, planned=None, refresh=False).any


def test_a_broken_state_is_replaced_by_the_one_before_it(session: Session, shop: Shop) -> None:
    bring_up(session, "one")
    good = client("s3").head_object(Bucket="shop-state", Key=KEY)["VersionId"]
    client("s3").put_object(Bucket="shop-state", Key=KEY, Body=b"{")
    listed = shop.run("aws", "versions", "shop", "network")
    assert "nothing that Pulumi can read" in listed.stdout
    assert shop.run("aws", "restore", "shop", "network", good, "--yes").exit_code == 0
    assert names(session) == ["one"]


def test_what_is_no_state_is_never_restored(session: Session, shop: Shop) -> None:
    bring_up(session, "one")
    bad = client("s3").put_object(Bucket="shop-state", Key=KEY, Body=b"{}")["VersionId"]
    done = shop.run("aws", "restore", "shop", "network", bad, "--yes")
    assert done.exit_code == 1
    assert "is not a state of Pulumi" in done.stderr


def lock(host: str) -> str:
    """A lock as Pulumi writes it, of a process that is not there."""
    key = f".pulumi/locks/organization/tokenworks/{STACK}/11111111-2222-3333-4444-555555555555.json"
    content = {
        "pid": 2**22 + 1,
        "username": "x",
        "hostname": host,
        "timestamp": "2026-01-01T00:00:00Z",
    }
    client("s3").put_object(Bucket="shop-state", Key=key, Body=json.dumps(content).encode())
    return key


def test_a_lock_in_the_bucket_is_waited_for_and_never_cleared_though_the_hostname_is_this_ones(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up(session, "one")
    key = lock(socket.gethostname())
    monkeypatch.setattr(stacks, "UPDATE_WAIT_SECONDS", 0)
    with pytest.raises(OperationError, match=f"pulumi cancel --stack {STACK}"):
        session.stacks.update(STACK, planned=None, refresh=False)
    assert key in objects()


def test_a_lock_of_another_machine_keeps_a_state_from_being_restored(
    session: Session, shop: Shop
) -> None:
    bring_up(session, "one")
    good = client("s3").head_object(Bucket="shop-state", Key=KEY)["VersionId"]
    key = lock("elsewhere")
    done = shop.run("aws", "restore", "shop", "network", good, "--yes")
    assert done.exit_code == 1
    assert f"pulumi cancel --stack {STACK}" in done.stderr
    session.stacks.pulumi("cancel", "--yes", "--stack", STACK)
    assert key not in objects()
    assert shop.run("aws", "restore", "shop", "network", good, "--yes").exit_code == 0


def test_pulumi_reads_the_file_of_an_import_plan(session: Session) -> None:
    """Its shape, on components alone, which need no provider; parents are made before children."""
    bring_up(session)
    file = session.workspace.root / "import.json"
    part = {"type": "tests:aws:Thing", "logicalName": "part", "component": True}
    whole = {"type": "tests:aws:Thing", "logicalName": "whole", "component": True}
    resources = [
        {**whole, "name": "tests:aws:Thing::whole"},
        {**part, "name": "tests:aws:Thing::part", "parent": "tests:aws:Thing::whole"},
    ]
    file.write_text(json.dumps({"nameTable": {}, "resources": resources}), "utf-8")
    options = ("--yes", "--generate-code=false", "--protect=false", "--stack", STACK)
    session.stacks.pulumi("import", "--file", str(file), *options)
    assert names(session) == ["part", "whole"]
