"""The command that compares quotas: what is unknown is exit code 3, what is short is 1."""

from __future__ import annotations

import json

from tests.aws_fixtures import client
from tests.operations.aws.shop import Shop


def verdicts(shop: Shop) -> tuple[int, dict[str, bool | None]]:
    done = shop.run("aws", "quotas", "shop", "--json")
    return done.exit_code, {one["need"]["name"]: one["enough"] for one in json.loads(done.stdout)}


def test_what_could_not_be_told_is_no_pass(shop: Shop, refused: set[str]) -> None:
    code, enough = verdicts(shop)
    assert enough["VPCs per Region"] is True
    assert enough["Running On-Demand G and VT instances"] is None
    assert code == 3


def test_what_is_short_outweighs_what_is_unknown(shop: Shop, refused: set[str]) -> None:
    for number in range(4):
        client("ec2").create_vpc(CidrBlock=f"10.{number}.0.0/16")
    code, enough = verdicts(shop)
    assert enough["VPCs per Region"] is False
    assert code == 1
