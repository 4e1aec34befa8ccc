"""Who is calling, and from where, is asked before anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.aws_fixtures import REGION, TARGET, client
from tokenworks.aws.client import AwsError, Cloud, connect
from tokenworks.errors import OperationError


def test_another_account_is_refused_with_who_is_calling(account: str) -> None:
    with pytest.raises(OperationError) as refused:
        connect(replace(TARGET, account="999999999999"))
    assert "its file says 999999999999" in str(refused.value)
    assert "in 123456789012" in str(refused.value)


def test_a_shell_that_is_set_to_another_region_is_refused(
    account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with pytest.raises(OperationError, match="this shell or profile says eu-west-1"):
        connect(TARGET)


def test_a_shell_without_a_region_is_not_refused(
    account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert connect(TARGET).client("ec2").meta.region_name == REGION


def test_no_credentials_say_how_to_log_in(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AwsError, match="log in to AWS"):
        connect(TARGET)


def test_an_error_names_the_call_the_code_and_what_to_do(cloud: Cloud) -> None:
    with pytest.raises(AwsError) as failed:
        cloud.call("ec2", "delete_volume", VolumeId="vol-00000000000000000")
    assert failed.value.code == "InvalidVolume.NotFound"
    assert str(failed.value).startswith("aws ec2 delete-volume: InvalidVolume.NotFound: ")


def test_listings_are_read_to_their_last_page(cloud: Cloud) -> None:
    for number in range(3):
        client("iam").create_role(RoleName=f"role-{number}", AssumeRolePolicyDocument="{}")
    settings = {"PaginationConfig": {"PageSize": 1}}
    found = list(cloud.pages("iam", "list_roles", "Roles", **settings))
    assert sorted(role["RoleName"] for role in found) == ["role-0", "role-1", "role-2"]
