"""Matching what programs register with what exists: by name and tags, in order, never guessed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.aws.import_keys import BY_NAME_TAG, CANNOT, KNOWN_TYPES, key_of
from tokenworks.aws.import_plan import Existing, Expected, plan_import, strangers

VPC, SUBNET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"
TABLE, ASSOCIATION = (
    "aws:ec2/routeTable:RouteTable",
    ("aws:ec2/routeTableAssociation:RouteTableAssociation"),
)
COMPONENT = "tokenworks:aws:Network"
ROOT = "urn:pulumi:shop-network::tokenworks::"


def expected(type_: str, called: str, *, parent: str = "", **inputs: Any) -> Expected:
    return Expected(
        type=type_,
        name=called,
        urn=f"{ROOT}{type_}::{called}",
        parent=parent,
        provider=f"{ROOT}pulumi:providers:aws::aws",
        inputs=inputs,
        known_as=frozenset({f"mocked-{called}"}),
    )


def named(name: str) -> dict[str, str]:
    return {"Name": name, "tokenworks:environment": "shop"}


def there(type_: str, id_: str, *key: str, ours: bool = True) -> Existing:
    return Existing(type=type_, id=id_, key=key, ours=ours, known_as=frozenset({id_}))


def test_a_resource_is_found_by_its_tag_and_imported_by_its_id() -> None:
    plan = plan_import(
        "shop-network",
        [expected(VPC, "network-vpc", tags=named("tokenworks-shop"))],
        [there(VPC, "vpc-1", "tokenworks-shop"), there(VPC, "vpc-2", "tokenworks-bank")],
    )
    assert [(match.expected.name, match.id) for match in plan.matches] == [("network-vpc", "vpc-1")]


def test_what_joins_two_resources_is_found_by_their_real_ids() -> None:
    registered = [
        expected(SUBNET, "a", tags=named("a")),
        expected(TABLE, "a-routes", tags=named("a")),
        expected(ASSOCIATION, "a-association", subnetId="mocked-a", routeTableId="mocked-a-routes"),
    ]
    existing = [
        there(SUBNET, "subnet-1", "a"),
        there(TABLE, "rtb-1", "a"),
        there(ASSOCIATION, "subnet-1/rtb-1", "subnet-1", "rtb-1"),
    ]
    plan = plan_import("shop-network", registered, existing)
    assert [match.id for match in plan.matches] == ["subnet-1", "rtb-1", "subnet-1/rtb-1"]


def test_ids_of_an_earlier_program_are_known_to_a_later_one() -> None:
    network = plan_import(
        "shop-network", [expected(SUBNET, "a", tags=named("a"))], [there(SUBNET, "subnet-1", "a")]
    )
    target = "aws:efs/mountTarget:MountTarget"
    mounted = expected(target, "m", fileSystemId="fs-1", subnetId="mocked-a")
    existing = [there(target, "fsmt-1", "fs-1", "subnet-1")]
    plan = plan_import("shop-storage", [mounted], existing, network.real())
    assert [match.id for match in plan.matches] == ["fsmt-1"]


def test_what_has_the_name_and_not_the_tag_is_never_adopted() -> None:
    """A control plane writes its log group anew after the stack deleted it (data-on-eks#341)."""
    group = "aws:cloudwatch/logGroup:LogGroup"
    name = "/aws/eks/tokenworks-shop/cluster"
    plan = plan_import(
        "shop-cluster", [expected(group, "logs", name=name)], [there(group, name, name, ours=False)]
    )
    assert not plan.matches
    (unclear,) = plan.unclear
    assert unclear.because == f"{name} has its name, and carries no tag of this environment"


def test_two_of_the_same_name_are_left_to_people() -> None:
    plan = plan_import(
        "shop-network",
        [expected(VPC, "network-vpc", tags=named("tokenworks-shop"))],
        [there(VPC, "vpc-1", "tokenworks-shop"), there(VPC, "vpc-2", "tokenworks-shop")],
    )
    assert not plan.matches
    assert plan.unclear[0].because == "several have that name: vpc-1, vpc-2"


def test_what_does_not_exist_is_made_by_the_next_update() -> None:
    plan = plan_import("shop-network", [expected(VPC, "v", tags=named("x"))], [])
    assert [each.name for each in plan.missing] == ["v"]


def test_a_type_that_nothing_here_knows_is_told_and_not_skipped() -> None:
    plan = plan_import("shop-network", [expected("aws:sqs/queue:Queue", "q", name="q")], [])
    assert "look for it by hand" in plan.unclear[0].because


def test_what_is_ours_and_in_no_program_is_told() -> None:
    existing = [there(VPC, "vpc-1", "tokenworks-shop"), there(VPC, "vpc-old", "older")]
    plan = plan_import(
        "shop-network", [expected(VPC, "v", tags=named("tokenworks-shop"))], existing
    )
    assert [each.name for each in strangers([plan], existing)] == ["vpc-old"]


def test_the_file_has_each_component_before_what_it_holds() -> None:
    outer = Expected(
        type=COMPONENT, name="network", urn=f"{ROOT}{COMPONENT}::network", custom=False
    )
    inner = Expected(
        type="tokenworks:aws:Role",
        name="logs",
        urn=f"{ROOT}{COMPONENT}$tokenworks:aws:Role::logs",
        parent=outer.urn,
        custom=False,
    )
    unused = Expected(type=COMPONENT, name="empty", urn=f"{ROOT}{COMPONENT}::empty", custom=False)
    role = expected("aws:iam/role:Role", "logs-role", parent=inner.urn, name="tokenworks-shop-logs")
    existing = [there("aws:iam/role:Role", "tokenworks-shop-logs", "tokenworks-shop-logs")]
    written = plan_import("shop-network", [outer, inner, unused, role], existing).file()
    assert [each["logicalName"] for each in written["resources"]] == [
        "network",
        "logs",
        "logs-role",
    ]
    network, logs, last = written["resources"]
    assert network["component"]
    assert "parent" not in network
    assert logs["parent"] == network["name"]
    assert last["parent"] == logs["name"]
    assert last["id"] == "tokenworks-shop-logs"
    assert written["nameTable"] == {last["provider"]: f"{ROOT}pulumi:providers:aws::aws"}


def test_names_in_the_file_are_alone_even_where_two_types_share_one() -> None:
    registered = [expected(SUBNET, "a", tags=named("a")), expected(TABLE, "a", tags=named("a"))]
    existing = [there(SUBNET, "subnet-1", "a"), there(TABLE, "rtb-1", "a")]
    written = plan_import("shop-network", registered, existing).file()
    assert len({each["name"] for each in written["resources"]}) == 2


def test_every_known_type_is_found_in_one_way() -> None:
    assert not BY_NAME_TAG & set(CANNOT)
    for type_ in KNOWN_TYPES - set(CANNOT):
        assert key_of(type_, {}) is None, "nothing is found by nothing"


TYPES = st.sampled_from([VPC, SUBNET, TABLE])
NAMES = st.sampled_from(["a", "b", "c"])
EXISTING = st.builds(
    lambda type_, name, number, ours: there(type_, f"id-{number}", name, ours=ours),
    TYPES, NAMES, st.integers(0, 99), st.booleans(),
)  # fmt: skip


@given(
    st.lists(st.tuples(TYPES, NAMES), unique=True),
    st.lists(EXISTING, unique_by=lambda one: one.id),
)
def test_each_registration_has_one_fate_and_only_our_own_is_adopted(
    wanted: list[tuple[str, str]], existing: list[Existing]
) -> None:
    registered = [expected(type_, name, tags=named(name)) for type_, name in wanted]
    plan = plan_import("shop-network", registered, existing)
    assert len(plan.matches) + len(plan.missing) + len(plan.unclear) == len(registered)
    ours = {(one.type, one.id) for one in existing if one.ours}
    adopted = [(match.expected.type, match.id) for match in plan.matches]
    assert set(adopted) <= ours
    assert len(adopted) == len(set(adopted))
