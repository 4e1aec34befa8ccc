"""Whether the pods of one workload may share a node or a zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tokenworks.plan.types import Decided

WhenUnsatisfiable = Literal["DoNotSchedule", "ScheduleAnyway"]


@dataclass(frozen=True, kw_only=True)
class SpreadPlan:
    """What happens to a pod that cannot be spread evenly: it waits, or it starts anyway.

    Pods of one revision are compared, over the nodes that could take one: a node that is lost or
    drained does not count, so what it carried starts on those that are left.
    """

    nodes: Decided[WhenUnsatisfiable]
    zones: Decided[WhenUnsatisfiable]


GATEWAY_SPREAD: Final = SpreadPlan(
    nodes=Decided(
        "DoNotSchedule",
        "two gateways are there to survive the loss of a node, which two on one node do not; a pod "
        "that would share one while another is free waits, and the old pods serve on",
    ),
    zones=Decided(
        "ScheduleAnyway",
        "evenly where there is room; a gateway in a zone that has one already serves more than "
        "one that waits, and nodes without a zone would take none at all",
    ),
)

ENGINE_SPREAD: Final = SpreadPlan(
    nodes=Decided(
        "ScheduleAnyway",
        "free GPUs decide where an engine fits; one that waits for another node serves nobody",
    ),
    zones=Decided(
        "ScheduleAnyway", "a pool may have all of its nodes in the zone that had the GPUs"
    ),
)
