"""Where replicas can run: whether every pod is sure to find its GPUs, now and while rolling.

The scheduler may spread small pods over all nodes, so "enough GPUs in the pool" does not mean
"enough GPUs on one node". What is promised here holds for every placement it may choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tokenworks.plan.types import Decided, Rollout


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Pods of one model: how many, and how many GPUs each takes on one node."""

    model: str
    replicas: int
    gpus_per_replica: int

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.gpus_per_replica


@dataclass(frozen=True, kw_only=True)
class Room:
    """The GPUs of one pool."""

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """All GPUs of the pool."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class _Load:
    """What a pool is asked in all: the sizes of its pods, their number, their GPUs."""

    sizes: frozenset[int]
    replicas: int
    gpus: int


def _load(demands: Sequence[Demand]) -> _Load:
    return _Load(
        sizes=frozenset(demand.gpus_per_replica for demand in demands),
        replicas=sum(demand.replicas for demand in demands),
        gpus=sum(demand.gpus for demand in demands),
    )


def always_fits(room: Room, demands: Sequence[Demand], gpus_per_pod: int) -> bool:
    """Whether one more pod finds its GPUs on some node, wherever the others were put.

    Pods of one size leave whole slots. With mixed sizes every node may be left one GPU short, so
    more than ``nodes x (gpus_per_pod - 1)`` free GPUs are needed (pigeonhole).
    """
    return _fits(room, _load(demands), gpus_per_pod)


def _fits(room: Room, load: _Load, gpus_per_pod: int) -> bool:
    if load.sizes | {gpus_per_pod} == {gpus_per_pod}:
        return room.nodes * (room.gpus_per_node // gpus_per_pod) > load.replicas
    return room.gpus - load.gpus > room.nodes * (gpus_per_pod - 1)


def unplaceable(room: Room, demands: Sequence[Demand]) -> Demand | None:
    """The first demand whose last pod might find no node with enough free GPUs, if any."""
    load = _load(demands)
    for demand in demands:
        size = demand.gpus_per_replica
        before_last = replace(load, replicas=load.replicas - 1, gpus=load.gpus - size)
        if not _fits(room, before_last, size):
            return demand
    return None


def surging(room: Room, demands: Sequence[Demand]) -> frozenset[str]:
    """Models that may start a new pod before an old one leaves, all of them at the same time.

    Small replicas are granted first; a model is left out if with its extra pod any model of the
    pool could be left without room.
    """
    return _surging(room, tuple(demands))


@lru_cache(maxsize=64)
def _surging(room: Room, demands: tuple[Demand, ...]) -> frozenset[str]:
    """Remembered, since every model of a pool asks the same."""
    granted: frozenset[str] = frozenset()
    for demand in sorted(demands, key=lambda d: (d.gpus_per_replica, d.model)):
        candidate = granted | {demand.model}
        at_most = [replace(d, replicas=d.replicas + (d.model in candidate)) for d in demands]
        if unplaceable(room, at_most) is None:
            granted = candidate
    return granted


def rollout(room: Room, demands: Sequence[Demand], model: str) -> Decided[Rollout]:
    """How one model replaces its pods without waiting for GPUs that never come free."""
    if model in surging(room, demands):
        spare = room.gpus - sum(demand.gpus for demand in demands)
        return Decided(
            Rollout(max_surge=1, max_unavailable=0),
            f"of the pool's GPUs {spare} are spare, and one more replica finds a node even while "
            "every other model of the pool rolls, too",
        )
    return Decided(
        Rollout(max_surge=0, max_unavailable=1),
        "no node is sure to have GPUs for an extra replica, so the old pod leaves before the "
        "new one comes; a surge would wait for ever",
    )
