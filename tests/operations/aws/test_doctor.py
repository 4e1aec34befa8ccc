"""The doctor in an AWS account: who is calling, the state, quotas; nothing unknown is good."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.operations.aws.shop import Shop


def findings(shop: Shop) -> tuple[int, dict[str, dict[str, Any]]]:
    done = shop.run("doctor", "shop", "--json")
    return done.exit_code, {each["subject"]: each for each in json.loads(done.stdout)}


def test_account_quotas_and_a_missing_state_are_told(shop: Shop, refused: set[str]) -> None:
    code, found = findings(shop)
    assert found["account 123456789012"]["well"] is True
    assert found["quota VPCs per Region"]["well"] is True
    assert found["quota Clusters"]["well"] is None
    assert "get-service-quota" in found["quota Clusters"]["remedy"]
    assert found["state of shop"]["well"] is None
    assert "tokenworks aws bootstrap shop" in found["state of shop"]["remedy"]
    assert "aws eks update-kubeconfig --name tokenworks-shop" in found["cluster"]["remedy"]
    assert code == 1


def test_without_credentials_everything_is_left_untold(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    _, found = findings(shop)
    assert found["account 123456789012"]["well"] is None
    assert "log in to AWS" in found["account 123456789012"]["remedy"]
    assert found["state of shop"]["well"] is None


def test_stacks_of_a_state_that_is_there_are_looked_at(
    shop_with_state: Shop, refused: set[str]
) -> None:
    _, found = findings(shop_with_state)
    assert found["shop-network"]["seen"] == "has no resources"
