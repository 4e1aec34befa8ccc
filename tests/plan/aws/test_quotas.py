"""Service quotas: every node counts once, against the quota of its family."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.aws.conftest import ROOT, aws_of, planned
from tokenworks.facts import aws_quotas
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.plan.aws.quotas import SURGE, family_quota, vcpu_needs
from tokenworks.plan.aws.types import AwsPlan, CapacityPlanned, NodeGroupPlan

TEMPLATE = aws_of(planned("example-aws", ROOT / "stacks")).node_groups[-1]
kinds = st.sampled_from(["ON_DEMAND", "RESERVATION", "CAPACITY_BLOCK"])


def group(instance: str, nodes: int, kind: str, strategy: str) -> NodeGroupPlan:
    had = CapacityPlanned(kind=kind, reservation=None)  # type: ignore[arg-type]
    return replace(
        TEMPLATE,
        instance=instance,
        nodes=nodes,
        capacity=had,
        update_strategy=strategy,  # type: ignore[arg-type]
    )


groups = st.lists(
    st.builds(
        group,
        st.sampled_from(sorted(aws_instances())),
        st.integers(0, 50),
        kinds,
        st.sampled_from(["DEFAULT", "MINIMAL"]),
    ),
    max_size=12,
)


@given(groups)
def test_quotas_add_up_to_every_processor_that_counts(found: list[NodeGroupPlan]) -> None:
    needs = list(vcpu_needs(found, ()))
    counted = [one for one in found if one.capacity.kind != "CAPACITY_BLOCK"]
    expected = sum(
        (one.nodes + (SURGE if one.update_strategy == "DEFAULT" else 0))
        * aws_instances()[one.instance].vcpus
        for one in counted
    )
    assert sum(need.needed for need in needs) == expected
    assert len({need.code for need in needs}) == len(needs)


@given(groups, groups)
def test_more_nodes_never_need_less(some: list[NodeGroupPlan], more: list[NodeGroupPlan]) -> None:
    before = {need.code: need.needed for need in vcpu_needs(some, ())}
    after = {need.code: need.needed for need in vcpu_needs([*some, *more], ())}
    assert all(after[code] >= needed for code, needed in before.items())


def test_families_count_against_their_own_quota() -> None:
    for name in aws_instances():
        family = {"p": aws_quotas.P_INSTANCES, "g": aws_quotas.G_INSTANCES}
        assert family_quota(name) == family.get(name[0], aws_quotas.STANDARD_INSTANCES)


def needed(plan: AwsPlan) -> dict[str, int]:
    return {one.code: one.needed for one in plan.quotas}


def test_a_block_counts_against_nothing_and_a_reservation_as_if_on_demand(
    example: AwsPlan, other: AwsPlan
) -> None:
    assert "L-417A185B" not in needed(example)
    assert needed(other)["L-417A185B"] == 8 * 192
    assert needed(other)["L-DB2E81BA"] == 2 * 16 + 4  # the reserved nodes, and the builder


def test_nat_takes_addresses_and_nothing_else_does(example: AwsPlan, other: AwsPlan) -> None:
    assert "L-0263D0A3" not in needed(example)
    assert needed(other)["L-0263D0A3"] == 3
    assert needed(other)["L-FE5A380F"] == 1


def test_every_part_that_exists_once_is_counted_once(example: AwsPlan, other: AwsPlan) -> None:
    for plan in (example, other):
        for code in ("L-F678F1CE", "L-69A177A2", "L-1194D53C"):
            assert needed(plan)[code] == 1
    assert needed(example)["L-FD6F2F22"] == 1
    assert "L-FD6F2F22" not in needed(other)
