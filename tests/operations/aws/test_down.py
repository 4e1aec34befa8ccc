"""Taking down a (moto) account with the real Pulumi: in reverse, swept between, proven empty."""

from __future__ import annotations

import json

import pytest

from tests.aws_fixtures import as_list, client
from tests.operations.aws.shop import Shop
from tests.operations.aws.world import SWEPT, leave_behind
from tokenworks.aws.client import Cloud
from tokenworks.errors import OperationError
from tokenworks.operations.aws_down import take_down_cloud
from tokenworks.operations.session import Session

pytestmark = pytest.mark.cluster

OURS = {
    "elbv2.k8s.aws/cluster": "tokenworks-shop",
    "kubernetes.io/cluster/tokenworks-shop": "owned",
}
NETWORK = {"tokenworks:environment": "shop", "tokenworks:program": "network"}


def bring_up(session: Session, *programs: str) -> None:
    """A stack a program, each of one component."""
    for program in programs:
        stack = f"shop-{program}"
        session.stacks.open(stack)
        session.stacks.pulumi("config", "set", "names", json.dumps([program]), "--stack", stack)
        session.stacks.update(stack, planned=None, refresh=False)


def protect(stack: str) -> None:
    """Protect the component in a stack's state, as `protected: true` does."""
    s3, key = client("s3"), f".pulumi/stacks/tokenworks/{stack}.json"
    state = json.loads(s3.get_object(Bucket="shop-state", Key=key)["Body"].read())
    state["checkpoint"]["latest"]["resources"][-1]["protect"] = True
    s3.put_object(Bucket="shop-state", Key=key, Body=json.dumps(state).encode())


def test_stacks_go_in_reverse_what_controllers_left_goes_and_data_stays(
    session: Session, shop: Shop
) -> None:
    bring_up(session, "network", "storage", "cluster", "serving")
    ours = leave_behind("10.64.0.0/16", "k8s-gateway", NETWORK, OURS)
    foreign = leave_behind("10.65.0.0/16", "tokenworks-shop-efs-sg", {}, {})
    done = shop.run("down", "shop", "--yes")
    assert done.exit_code == 0, done.output
    assert session.stacks.names() == ("shop-network", "shop-storage")
    said = done.stderr
    assert said.index("shop-serving: 2 deleted") < said.index("shop-cluster: 2 deleted")
    assert said.index("load balancer") < said.index("shop-cluster: 2 deleted"), "swept between"
    assert ours.missing() == SWEPT - {"volume"}
    assert foreign.missing() == set()
    assert f"vpc/{ours.vpc}" in done.stdout, "the network is kept on purpose"


def test_volumes_of_claims_are_kept_and_told_and_go_with_data(session: Session, shop: Shop) -> None:
    bring_up(session, "storage", "cluster")
    claims = {"ebs.csi.aws.com/cluster-name": "tokenworks-shop", "tokenworks:environment": "shop"}
    ours = leave_behind("10.64.0.0/16", "k8s-gateway", {}, OURS)
    name = {"kubernetes.io/created-for/pvc/name": "data-0"}
    client("ec2").create_tags(Resources=[ours.volume], Tags=as_list(claims | name))
    done = shop.run("down", "shop", "--yes")
    assert done.exit_code == 0, done.output
    assert f"volume {ours.volume} (data-0): kept, it may hold data of a claim" in done.stderr
    assert "tokenworks aws sweep shop` before the next `up`" in done.stderr
    assert "1 volumes of claims kept on purpose" in done.stderr
    assert "volume" not in ours.missing()
    done = shop.run("down", "shop", "--with-data", "--yes", typed="shop\n")
    assert done.exit_code == 0, done.output
    assert ours.missing() == SWEPT


def test_what_is_protected_needs_two_deliberate_steps(session: Session, shop: Shop) -> None:
    bring_up(session, "storage", "cluster")
    protect("shop-storage")
    protect("shop-cluster")
    refused = shop.run("down", "shop", "--with-data", "--yes", typed="shop\n")
    assert refused.exit_code == 1
    assert "nothing was deleted" in refused.stderr
    assert "tokenworks aws unprotect shop --with-data" in refused.stderr
    assert session.stacks.names() == ("shop-cluster", "shop-storage")

    wrong = shop.run("aws", "unprotect", "shop", "--with-data", typed="shop-staging\n")
    assert wrong.exit_code == 1
    assert "shop-storage: storage" in wrong.stdout
    assert shop.run("down", "shop", "--with-data", "--yes", typed="shop\n").exit_code == 1

    assert shop.run("aws", "unprotect", "shop", "--with-data", typed="shop\n").exit_code == 0
    assert session.stacks.names() == ("shop-cluster", "shop-storage"), "the first deletes nothing"
    untyped = shop.run("down", "shop", "--with-data", "--yes", typed="\n")
    assert untyped.exit_code == 1
    done = shop.run("down", "shop", "--with-data", "--yes", typed="shop\n")
    assert done.exit_code == 0, done.output
    assert session.stacks.names() == ()


def test_what_is_left_with_our_tag_is_no_empty_account(session: Session, cloud: Cloud) -> None:
    tags = {"tokenworks:environment": "shop", "tokenworks:program": "cluster"}
    client("iam").create_role(
        RoleName="tokenworks-shop-node", AssumeRolePolicyDocument="{}", Tags=as_list(tags)
    )
    with pytest.raises(OperationError, match="role/tokenworks-shop-node"):
        take_down_cloud(session, cloud, with_data=True, settle_seconds=0)
