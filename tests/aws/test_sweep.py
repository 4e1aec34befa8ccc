"""What is swept, what waits, what is blocked, and what is never touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.aws_fixtures import TARGET
from tokenworks.aws.inventory import Inventory, Thing
from tokenworks.aws.ownership import Kind, is_stacks_own, may_hold_data, proof
from tokenworks.aws.sweep import ORDER, Kept, plan_sweep

OURS = {
    "elbv2.k8s.aws/cluster": "tokenworks-shop",
    "kubernetes.io/cluster/tokenworks-shop": "owned",
}
THEIRS = {
    "elbv2.k8s.aws/cluster": "tokenworks-bank",
    "kubernetes.io/cluster/tokenworks-bank": "owned",
}
STACKS = {"tokenworks:environment": "shop", "tokenworks:program": "network"}
BALANCER = Thing(
    kind="load balancer", id="arn:lb", name="k8s-gw", tags=OURS, part_of=frozenset({"net/k8s/1"})
)
TARGETS = Thing(kind="target group", id="arn:tg", tags=OURS, part_of=frozenset({"arn:lb"}))
GROUP = Thing(kind="security group", id="sg-1", tags=OURS, vpc="vpc-1")
INTERFACE = Thing(kind="network interface", id="eni-1", tags=OURS, vpc="vpc-1")
VOLUME = Thing(kind="volume", id="vol-1", tags=OURS)
DISK = Thing(kind="volume", id="vol-2", tags=STACKS | {"tokenworks:program": "cluster"})


def inventory(*things: Thing, cluster: bool = False) -> Inventory:
    return Inventory(things=things, networks=frozenset({"vpc-1"}), cluster_exists=cluster)


def ids(kept: tuple[Any, ...]) -> list[str]:
    return [one.id for one in kept]


def only(kept: tuple[Kept, ...]) -> Kept:
    (one,) = kept
    return one


def test_what_is_idle_and_ours_goes_in_the_order_in_which_it_holds_on_to_each_other() -> None:
    plan = plan_sweep(inventory(VOLUME, GROUP, INTERFACE, TARGETS, BALANCER), TARGET)
    assert ids(plan.steps) == ["arn:lb", "arn:tg", "eni-1", "sg-1", "vol-1"]
    assert not plan.blocked
    assert not plan.waiting


def test_the_same_things_of_another_environment_all_stay() -> None:
    things = [replace(one, tags=THEIRS) for one in (BALANCER, TARGETS, GROUP, INTERFACE, VOLUME)]
    plan = plan_sweep(inventory(*things), TARGET)
    assert not [*plan.steps, *plan.blocked, *plan.waiting]


def test_a_load_balancer_with_a_healthy_target_is_serving_somebody() -> None:
    serving = replace(TARGETS, name="tg", busy="2 healthy targets")
    plan = plan_sweep(inventory(BALANCER, serving), TARGET)
    assert not plan.steps
    assert {one.id: one.because for one in plan.blocked} == {
        "arn:lb": "it serves: tg has 2 healthy targets",
        "arn:tg": "2 healthy targets",
    }


def test_targets_stay_where_a_load_balancer_of_others_uses_them() -> None:
    foreign = replace(BALANCER, id="arn:foreign", tags={})
    shared = replace(TARGETS, part_of=frozenset({"arn:lb", "arn:foreign"}))
    plan = plan_sweep(inventory(BALANCER, foreign, shared), TARGET)
    assert ids(plan.steps) == ["arn:lb"]
    assert only(plan.blocked).because == "a load balancer that stays uses it: arn:foreign"


def test_an_attached_interface_waits_for_the_cluster_and_blocks_once_it_is_gone() -> None:
    attached = replace(INTERFACE, busy="in-use i-1")
    assert ids(plan_sweep(inventory(attached, cluster=True), TARGET).waiting) == ["eni-1"]
    assert ids(plan_sweep(inventory(attached), TARGET).blocked) == ["eni-1"]


def test_a_free_interface_waits_while_a_node_may_be_about_to_attach_it() -> None:
    plan = plan_sweep(inventory(INTERFACE, cluster=True), TARGET)
    assert not plan.steps
    assert "about to attach" in only(plan.waiting).because


def test_a_free_volume_waits_while_a_claim_of_the_cluster_may_own_it() -> None:
    plan = plan_sweep(inventory(VOLUME, DISK, cluster=True), TARGET)
    assert ids(plan.steps) == ["vol-2"], "no claim owns the disk of a node"
    assert only(plan.waiting).id == "vol-1"
    assert only(plan.waiting).because == "a claim of the cluster, which exists, may own it"


def test_a_volume_of_a_claim_outlives_its_cluster_unless_data_is_to_go() -> None:
    plan = plan_sweep(inventory(VOLUME, DISK), TARGET, with_data=False)
    assert ids(plan.steps) == ["vol-2"]
    assert only(plan.kept_data).because == "it may hold data of a claim"
    assert not plan.blocked, "nobody waits for what is kept"
    plan = plan_sweep(inventory(VOLUME, DISK), TARGET)
    assert {step.id: step.may_hold_data for step in plan.steps} == {"vol-1": True, "vol-2": False}
    assert not plan.kept_data


def test_an_attached_volume_of_a_claim_is_kept_and_blocks_only_where_data_is_to_go() -> None:
    attached = replace(VOLUME, busy="in-use i-1")
    plan = plan_sweep(inventory(attached), TARGET, with_data=False)
    assert ids(plan.kept_data) == ["vol-1"]
    assert not plan.blocked
    assert ids(plan_sweep(inventory(attached), TARGET).blocked) == ["vol-1"]


def test_the_control_planes_group_waits_for_the_control_plane() -> None:
    group = replace(GROUP, tags={**OURS, "aws:eks:cluster-name": "tokenworks-shop"})
    assert ids(plan_sweep(inventory(group, cluster=True), TARGET).waiting) == ["sg-1"]
    assert ids(plan_sweep(inventory(group), TARGET).steps) == ["sg-1"]


def test_a_group_stays_where_an_interface_of_others_uses_it() -> None:
    user = Thing(kind="network interface", id="eni-9", busy="in-use", holds=frozenset({"sg-1"}))
    plan = plan_sweep(inventory(GROUP, user), TARGET)
    assert only(plan.blocked).because == "network interface eni-9 uses it"


def test_the_interfaces_of_a_load_balancer_that_goes_block_nothing() -> None:
    made = Thing(
        kind="network interface", id="eni-2", busy="in-use", made_by_aws=True,
        holds=frozenset({"sg-1"}), part_of=frozenset({"net/k8s/1"}),
    )  # fmt: skip
    plan = plan_sweep(inventory(BALANCER, GROUP, made), TARGET)
    assert ids(plan.steps) == ["arn:lb", "sg-1"]


def rule(id_: str, *, of: str, to: str) -> Thing:
    return Thing(
        kind="firewall rule", id=id_, name="ingress", holds=frozenset({to}), part_of=frozenset({of})
    )


def test_a_rule_in_a_group_of_a_stack_of_ours_is_revoked_before_the_group_it_refers_to() -> None:
    stacks = Thing(kind="security group", id="sg-nodes", tags=STACKS, vpc="vpc-1")
    plan = plan_sweep(inventory(GROUP, stacks, rule("sgr-1", of="sg-nodes", to="sg-1")), TARGET)
    assert ids(plan.steps) == ["sgr-1", "sg-1"]


def test_a_rule_in_a_group_of_others_keeps_the_group_and_itself() -> None:
    foreign = Thing(kind="security group", id="sg-foreign", vpc="vpc-1")
    plan = plan_sweep(inventory(GROUP, foreign, rule("sgr-1", of="sg-foreign", to="sg-1")), TARGET)
    assert not plan.steps
    assert only(plan.blocked).because == "rule sgr-1 of sg-foreign refers to it"


def test_two_groups_that_refer_to_each_other_both_go() -> None:
    other = replace(GROUP, id="sg-2")
    rules = rule("sgr-1", of="sg-1", to="sg-2"), rule("sgr-2", of="sg-2", to="sg-1")
    plan = plan_sweep(inventory(GROUP, other, *rules), TARGET)
    assert ids(plan.steps) == ["sgr-1", "sgr-2", "sg-1", "sg-2"]


def test_strangers_in_our_network_are_told_and_strangers_elsewhere_are_not() -> None:
    here = Thing(kind="security group", id="sg-efs", name="efs-sg", vpc="vpc-1")
    there = replace(here, id="sg-elsewhere", vpc="vpc-2")
    default = replace(here, id="sg-default", name="default", made_by_aws=True)
    plan = plan_sweep(inventory(here, there, default, GROUP), TARGET)
    assert ids(plan.strangers) == ["sg-efs"]


TAG_KEYS = [
    "Name",
    "aws:eks:cluster-name",
    "cluster.k8s.amazonaws.com/name",
    "ebs.csi.aws.com/cluster-name",
    "elbv2.k8s.aws/cluster",
    "kubernetes.io/cluster/tokenworks-bank",
    "kubernetes.io/cluster/tokenworks-shop",
    "tokenworks:environment",
    "tokenworks:program",
]
TAG_VALUES = ["owned", "shared", "tokenworks-shop", "tokenworks-bank", "shop", "bank", "cluster"]
IDS = [f"id-{number}" for number in range(8)]
SOME = st.frozensets(st.sampled_from(IDS), max_size=3)
THINGS = st.builds(
    Thing,
    kind=st.sampled_from(get_args(Kind)),
    id=st.sampled_from(IDS),
    tags=st.dictionaries(st.sampled_from(TAG_KEYS), st.sampled_from(TAG_VALUES), max_size=4),
    vpc=st.sampled_from(["", "vpc-1", "vpc-2"]),
    busy=st.sampled_from(["", "", "in-use"]),
    holds=SOME,
    part_of=SOME,
    made_by_aws=st.booleans(),
)
INVENTORIES = st.builds(
    Inventory,
    things=st.lists(THINGS, max_size=8, unique_by=lambda one: one.id).map(tuple),
    networks=st.just(frozenset({"vpc-1"})),
    cluster_exists=st.booleans(),
)


@given(INVENTORIES)
def test_nothing_without_an_ownership_tag_is_ever_deleted(found: Inventory) -> None:
    by_id = {thing.id: thing for thing in found.things}
    plan = plan_sweep(found, TARGET)
    owned = {t.id for t in found.things if proof(t.kind, t.tags, TARGET)}
    mine = owned | {t.id for t in found.things if is_stacks_own(t.tags, TARGET)}
    for step in plan.steps:
        thing = by_id[step.id]
        if step.kind == "firewall rule":
            assert thing.part_of <= mine, "a rule of somebody else's group"
        else:
            assert step.id in owned
            assert not thing.busy
            assert not thing.made_by_aws


@given(INVENTORIES, st.booleans())
def test_volumes_of_claims_go_only_with_data_and_after_the_cluster(
    found: Inventory, with_data: bool
) -> None:
    plan = plan_sweep(found, TARGET, with_data=with_data)
    by_id = {thing.id: thing for thing in found.things}
    going = [by_id[step.id] for step in plan.steps]
    if found.cluster_exists or not with_data:
        assert not [one for one in going if may_hold_data(one.kind, one.tags, TARGET)]


@given(INVENTORIES, st.booleans())
def test_each_of_ours_has_one_fate_and_steps_are_in_order(
    found: Inventory, with_data: bool
) -> None:
    plan = plan_sweep(found, TARGET, with_data=with_data)
    staying = (plan.waiting, plan.blocked, plan.kept_data, plan.strangers)
    fates = [*ids(plan.steps), *(one.id for kept in staying for one in kept)]
    assert len(fates) == len(set(fates))
    places = [ORDER.index(step.kind) for step in plan.steps]
    assert places == sorted(places)
    for thing in found.things:
        if proof(thing.kind, thing.tags, TARGET) and not thing.made_by_aws:
            assert thing.id in fates


@given(INVENTORIES, st.booleans())
def test_nothing_goes_that_something_which_stays_still_holds(
    found: Inventory, with_data: bool
) -> None:
    plan = plan_sweep(found, TARGET, with_data=with_data)
    going = set(ids(plan.steps))
    balancers = {p for s in plan.steps if "load balancer" in s.kind for p in s.part_of}
    groups = {step.id for step in plan.steps if step.kind == "security group"}
    for thing in found.things:
        with_balancer = thing.kind == "network interface" and thing.part_of & balancers
        if thing.id not in going and not with_balancer:
            assert not thing.holds & groups
