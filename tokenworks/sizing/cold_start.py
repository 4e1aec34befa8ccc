"""How long a replica takes until it serves, and the limits that leave it that time.

Capacity is there at trigger + node + image + check + load + warm-up. Each limit contains what the
next inner one allows and the budgets of everything else that may happen meanwhile, so that an
outer limit never ends what an inner one still permits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tokenworks.facts.start_up_phases import (
    ENGINE_IMAGE_MB,
    IMAGE_MB_PER_SECOND,
    NODE_SECONDS,
    SHA256_MIB_PER_SECOND,
    WARM_UP_SECONDS,
)

MIB = 2**20

SAFETY = 2
"""A budget is this many times the estimate: a slow start costs minutes, a killed one costs all."""

METRIC_WINDOW_SECONDS = 60
"""What passes before a scaler sees the load: two scrapes, of which a rate needs both, 30 s apart as
the chart kube-prometheus-stack has it."""

MARGIN_SECONDS = 30
"""What an outer limit has beyond all that it contains: three periods of a probe."""


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """Estimated seconds of every part of a start, in the order in which they pass."""

    metric_window_seconds: int
    node_seconds: int
    image_pull_seconds: int
    check_seconds: int
    load_seconds: int
    warm_up_seconds: int

    @property
    def engine_seconds(self) -> int:
        """From the start of the engine until it answers."""
        return self.load_seconds + self.warm_up_seconds

    @property
    def on_known_node_seconds(self) -> int:
        """Until a replica serves on a node that has the image."""
        return self.check_seconds + self.engine_seconds

    @property
    def on_new_node_seconds(self) -> int:
        """Until a replica serves on a node that has to come first."""
        return self.node_seconds + self.image_pull_seconds + self.on_known_node_seconds

    @property
    def scale_out_seconds(self) -> int:
        """From the load that triggers it until a replica on a new node serves."""
        return self.metric_window_seconds + self.on_new_node_seconds

    @property
    def budget_seconds(self) -> int:
        """What the engine container may take before it counts as broken; the startup probe."""
        return SAFETY * self.engine_seconds

    @property
    def progress_deadline_seconds(self) -> int:
        """What one replica may take, its node included, before a rollout counts as stuck."""
        before = self.node_seconds + self.image_pull_seconds + self.check_seconds
        return SAFETY * before + self.budget_seconds + MARGIN_SECONDS

    def rollout_seconds(self, replicas: int, drain_seconds: int) -> int:
        """What replacing every replica, one after the other, may take before it is given up."""
        one = drain_seconds + self.progress_deadline_seconds
        return replicas * one + MARGIN_SECONDS

    @property
    def schedule_lead_seconds(self) -> int:
        """How long before the load a schedule must scale so that capacity is there in time."""
        return self.progress_deadline_seconds


def cold_start(
    weight_bytes: int,
    read_mib_per_second: int,
    *,
    node_seconds: int | None = None,
    image_pull_seconds: int | None = None,
    warm_up_seconds: int | None = None,
) -> ColdStart:
    """Estimates that follow from the size of the weights and the rate at which they are read.

    What else was measured is given in seconds; public measurements stand in for the rest.
    """
    image = math.ceil(ENGINE_IMAGE_MB / IMAGE_MB_PER_SECOND)
    return ColdStart(
        metric_window_seconds=METRIC_WINDOW_SECONDS,
        node_seconds=node_seconds or NODE_SECONDS,
        image_pull_seconds=image_pull_seconds or image,
        check_seconds=_check_seconds(weight_bytes, read_mib_per_second),
        load_seconds=_load_seconds(weight_bytes, read_mib_per_second),
        warm_up_seconds=warm_up_seconds or WARM_UP_SECONDS,
    )


def from_other_storage(times: ColdStart, weight_bytes: int, read_mib_per_second: int) -> ColdStart:
    """The same start with weights that are read at another rate."""
    return replace(
        times,
        check_seconds=_check_seconds(weight_bytes, read_mib_per_second),
        load_seconds=_load_seconds(weight_bytes, read_mib_per_second),
    )


def _check_seconds(weight_bytes: int, read_mib_per_second: int) -> int:
    return math.ceil(weight_bytes / MIB / min(read_mib_per_second, SHA256_MIB_PER_SECOND))


def _load_seconds(weight_bytes: int, read_mib_per_second: int) -> int:
    return math.ceil(weight_bytes / MIB / read_mib_per_second)


def warm_replicas(*, growth_per_second: float, limit: int, cold_start_seconds: int) -> int:
    """Replicas to keep ready beyond what runs: the load that comes while new ones start.

    ``growth_per_second`` is in sequences in flight, ``limit`` in sequences of one replica.
    """
    return math.ceil(growth_per_second * cold_start_seconds / limit)
