"""Which pods give way to which when a node is short."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.naming import ENGINE_ROLE, GATEWAY_ROLE


@dataclass(frozen=True, kw_only=True)
class PriorityPlan:
    """One priority class: the pods of a role, their rank among all pods, and why."""

    name: str
    role: str
    value: int
    because: str


GATEWAY_PRIORITY = PriorityPlan(
    name="tokenworks-gateway",
    role=GATEWAY_ROLE,
    value=1_000_000,
    because="Without the gateway nothing is served, so engines give way to it.",
)
ENGINE_PRIORITY = PriorityPlan(
    name="tokenworks-engine",
    role=ENGINE_ROLE,
    value=900_000,
    because="Engines serve callers, so batch work gives way to them.",
)
