"""Whose a resource is, told by its tags."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aws_fixtures import TARGET
from tokenworks.aws.ownership import PROOFS, Kind, is_stacks_own, may_hold_data, proof
from tokenworks.aws.sweep import ORDER

KINDS: tuple[Kind, ...] = get_args(Kind)
CLUSTER_OWNS = {"kubernetes.io/cluster/tokenworks-shop": "owned"}


def test_every_kind_has_its_proofs_and_its_place_in_the_order() -> None:
    assert set(KINDS) == set(PROOFS) == set(ORDER)


@pytest.mark.parametrize(
    ("kind", "tags"),
    [
        ("load balancer", {"elbv2.k8s.aws/cluster": "tokenworks-shop"}),
        ("target group", {"elbv2.k8s.aws/cluster": "tokenworks-shop"}),
        ("security group", {"elbv2.k8s.aws/cluster": "tokenworks-shop"}),
        ("security group", CLUSTER_OWNS),
        ("classic load balancer", CLUSTER_OWNS),
        ("network interface", {"cluster.k8s.amazonaws.com/name": "tokenworks-shop"}),
        ("volume", {"ebs.csi.aws.com/cluster-name": "tokenworks-shop"}),
        ("volume", CLUSTER_OWNS),
    ],
)
def test_controllers_tags_prove_what_they_made(kind: Kind, tags: dict[str, str]) -> None:
    (key, value), *_ = tags.items()
    assert proof(kind, tags, TARGET) == f"{key}={value}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_proves_nothing(kind: Kind) -> None:
    assert proof(kind, {"Name": "tokenworks-shop"}, TARGET) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cluster", ["tokenworks-shop2", "tokenworks-sho", "shop", "other"])
def test_the_tags_of_another_cluster_prove_nothing(kind: Kind, cluster: str) -> None:
    tags = {
        "elbv2.k8s.aws/cluster": cluster,
        f"kubernetes.io/cluster/{cluster}": "owned",
        "cluster.k8s.amazonaws.com/name": cluster,
        "ebs.csi.aws.com/cluster-name": cluster,
    }
    assert proof(kind, tags, TARGET) is None


def test_what_a_cluster_only_shares_is_not_its_own() -> None:
    tags = {"kubernetes.io/cluster/tokenworks-shop": "shared"}
    assert proof("security group", tags, TARGET) is None


@pytest.mark.parametrize("kind", KINDS)
def test_another_environments_tag_outweighs_every_other(kind: Kind) -> None:
    tags = {**CLUSTER_OWNS, "elbv2.k8s.aws/cluster": "tokenworks-shop"}
    assert proof(kind, {**tags, "tokenworks:environment": "bank"}, TARGET) is None


def test_what_a_stack_made_is_left_to_pulumi() -> None:
    tags = {"tokenworks:environment": "shop", "tokenworks:program": "network"}
    assert proof("security group", {**tags, **CLUSTER_OWNS}, TARGET) is None
    assert is_stacks_own(tags, TARGET)


def test_interfaces_and_volumes_of_nodes_carry_their_stacks_tags_and_no_stack_deletes_them() -> (
    None
):
    tags = {"tokenworks:environment": "shop", "tokenworks:program": "cluster"}
    assert proof("network interface", tags, TARGET) == "tokenworks:environment=shop"
    assert proof("volume", tags, TARGET) == "tokenworks:environment=shop"
    assert proof("volume", {"tokenworks:program": "cluster"}, TARGET) is None


DRIVER = {"ebs.csi.aws.com/cluster-name": "tokenworks-shop"}
LAUNCH_TEMPLATE = {"tokenworks:environment": "shop", "tokenworks:program": "cluster"}


@pytest.mark.parametrize("tags", [DRIVER, CLUSTER_OWNS, DRIVER | LAUNCH_TEMPLATE])
def test_a_volume_that_a_driver_made_may_hold_data(tags: dict[str, str]) -> None:
    assert may_hold_data("volume", tags, TARGET)


@pytest.mark.parametrize("tags", [LAUNCH_TEMPLATE, LAUNCH_TEMPLATE | CLUSTER_OWNS])
def test_a_disk_that_a_launch_template_made_for_a_node_holds_none(tags: dict[str, str]) -> None:
    assert not may_hold_data("volume", tags, TARGET)


def test_nothing_but_a_volume_holds_data() -> None:
    assert [kind for kind in KINDS if may_hold_data(kind, CLUSTER_OWNS, TARGET)] == ["volume"]


@given(st.sampled_from(KINDS), st.dictionaries(st.text(max_size=12), st.text(max_size=12)))
def test_tags_that_never_mention_the_cluster_prove_nothing(
    kind: Kind, tags: dict[str, str]
) -> None:
    assert proof(kind, tags, TARGET) is None
