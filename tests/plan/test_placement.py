"""Placement: what is promised holds for every arrangement that a scheduler may choose."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.plan.placement import Demand, Room, always_fits, rollout, surging, unplaceable

rooms = st.builds(Room, nodes=st.integers(1, 4), gpus_per_node=st.sampled_from([1, 2, 4, 8]))
demand_lists = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=3
).map(
    lambda pairs: [
        Demand(model=f"m{i}", replicas=replicas, gpus_per_replica=size)
        for i, (replicas, size) in enumerate(pairs)
    ]
)


class Adversary:
    """A scheduler that puts pods wherever chance takes it, and knows when one is stuck."""

    def __init__(self, room: Room, seed: int) -> None:
        self.free = [room.gpus_per_node] * room.nodes
        self.pods: list[tuple[str, int, int]] = []
        self.random = random.Random(seed)

    def place(self, model: str, gpus: int) -> bool:
        nodes = [node for node, free in enumerate(self.free) if free >= gpus]
        if not nodes:
            return False
        node = self.random.choice(nodes)
        self.free[node] -= gpus
        self.pods.append((model, gpus, node))
        return True

    def remove_one(self, model: str) -> None:
        pod = self.random.choice([pod for pod in self.pods if pod[0] == model])
        self.pods.remove(pod)
        self.free[pod[2]] += pod[1]


def place_all(scheduler: Adversary, demands: Sequence[Demand]) -> bool:
    pods = [(d.model, d.gpus_per_replica) for d in demands for _ in range(d.replicas)]
    scheduler.random.shuffle(pods)
    return all(scheduler.place(*pod) for pod in pods)


@given(rooms, demand_lists, st.integers())
def test_what_is_called_placeable_is_placed_in_any_order_on_any_nodes(
    room: Room, demands: list[Demand], seed: int
) -> None:
    if unplaceable(room, demands) is None:
        assert place_all(Adversary(room, seed), demands)


@given(rooms, demand_lists, st.integers())
def test_all_models_can_roll_at_once_without_waiting_for_ever(
    room: Room, demands: list[Demand], seed: int
) -> None:
    if unplaceable(room, demands) is not None:
        return
    scheduler = Adversary(room, seed)
    assert place_all(scheduler, demands)
    waiting: list[Demand] = []
    for demand in demands:
        if rollout(room, demands, demand.model).value.max_surge == 0:
            scheduler.remove_one(demand.model)
        waiting.append(demand)
    scheduler.random.shuffle(waiting)
    assert all(scheduler.place(d.model, d.gpus_per_replica) for d in waiting)


@given(rooms, demand_lists)
def test_more_than_the_gpus_of_a_pool_is_never_called_placeable(
    room: Room, demands: list[Demand]
) -> None:
    if sum(demand.gpus for demand in demands) > room.gpus:
        assert unplaceable(room, demands) is not None


def test_a_full_pool_rolls_without_a_surge() -> None:
    demand = Demand(model="m", replicas=4, gpus_per_replica=2)
    room = Room(nodes=1, gpus_per_node=8)
    assert rollout(room, [demand], "m").value.max_surge == 0
    assert rollout(room, [demand], "m").value.max_unavailable == 1


def test_one_spare_gpu_on_a_fragmented_pool_is_not_two() -> None:
    # Two nodes of 8 with 14 single GPUs taken: two are free, perhaps one on each node.
    singles = Demand(model="small", replicas=14, gpus_per_replica=1)
    room = Room(nodes=2, gpus_per_node=8)
    assert not always_fits(room, [singles], 2)
    assert always_fits(room, [singles], 1)


def test_two_models_do_not_both_count_on_the_same_spare_gpu() -> None:
    demands = [Demand(model=m, replicas=3, gpus_per_replica=1) for m in ("a", "b")]
    assert surging(Room(nodes=1, gpus_per_node=7), demands) == {"a"}
    assert surging(Room(nodes=1, gpus_per_node=8), demands) == {"a", "b"}
