"""Deciding what of a cluster's controllers is left behind, and in which order it can go.

Pulumi deletes what Pulumi made. What controllers made goes by their own doing while they live; what
they left when they died first keeps networks and groups from being deleted. Only that is swept,
and only by ownership tags.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tokenworks.aws.inventory import Inventory, Thing
from tokenworks.aws.ownership import (
    CONTROL_PLANE_TAG,
    Kind,
    is_stacks_own,
    may_hold_data,
    proof,
)
from tokenworks.aws.target import Target

ORDER: Final[tuple[Kind, ...]] = (
    "load balancer",
    "classic load balancer",
    "target group",
    "network interface",
    "firewall rule",
    "security group",
    "volume",
)
"""What goes first: each kind may be held by those before it."""
_OF_NODES: Final[frozenset[Kind]] = frozenset({"network interface", "security group", "volume"})
"""Kinds that nodes, claims and the control plane use, and let go of when the cluster ends."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One resource to delete, and the tag that proves it ours; ``part_of`` as in ``Thing``.

    ``may_hold_data`` is true of volumes that were made for claims.
    """

    kind: Kind
    id: str
    name: str
    because: str
    part_of: tuple[str, ...] = ()
    may_hold_data: bool = False


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One resource that stays, and why."""

    kind: Kind
    id: str
    name: str
    because: str


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Steps in order, and what stays.

    ``waiting`` is ours and stays while the cluster exists; ``blocked`` is ours and something else
    keeps it; ``kept_data`` is ours and could go, if data were to go. ``strangers`` carry no tag of
    ours and are never touched, but lie in our network, which cannot go before them.
    """

    steps: tuple[Step, ...]
    waiting: tuple[Kept, ...]
    blocked: tuple[Kept, ...]
    kept_data: tuple[Kept, ...]
    strangers: tuple[Kept, ...]


def plan_sweep(inventory: Inventory, target: Target, *, with_data: bool = True) -> SweepPlan:
    """What to delete of an inventory, once what used it was destroyed.

    Volumes of claims wait for the cluster, and stay after it too unless data is to go.
    """
    ours = {
        thing.id: (thing, tag)
        for thing in inventory.things
        if not thing.made_by_aws and (tag := proof(thing.kind, thing.tags, target))
    }
    data = {t.id for t, _ in ours.values() if may_hold_data(t.kind, t.tags, target)}
    keeps_data = not with_data and not inventory.cluster_exists
    blocked = dict.fromkeys(data, "it may hold data of a claim") if keeps_data else {}
    for thing, _ in ours.values():
        if reason := _in_use(thing, inventory, holds_data=thing.id in data):
            blocked.setdefault(thing.id, reason)
    _block_what_others_hold(inventory, target, ours, blocked)
    steps = [
        Step(
            kind=t.kind,
            id=t.id,
            name=t.name,
            because=tag,
            part_of=tuple(sorted(t.part_of)),
            may_hold_data=t.id in data,
        )
        for t, tag in ours.values()
        if t.id not in blocked
    ]
    groups = {step.id for step in steps if step.kind == "security group"}
    steps += _rules_to_revoke(inventory, groups)
    kept = [_kept(ours[id_][0], reason) for id_, reason in sorted(blocked.items())]
    waits = _OF_NODES if inventory.cluster_exists else frozenset()
    kept_data = tuple(each for each in kept if keeps_data and each.id in data)
    return SweepPlan(
        steps=tuple(sorted(steps, key=lambda step: (ORDER.index(step.kind), step.id))),
        waiting=tuple(each for each in kept if each.kind in waits),
        blocked=tuple(each for each in kept if each.kind not in waits and each not in kept_data),
        kept_data=kept_data,
        strangers=tuple(_strangers(inventory, target, set(ours))),
    )


def _in_use(thing: Thing, inventory: Inventory, *, holds_data: bool) -> str:
    """Why a resource of ours must stay for now, by what it says of itself."""
    if thing.busy:
        return thing.busy
    if thing.kind in ("load balancer", "classic load balancer"):
        behind = [t for t in inventory.things if t.kind == "target group" and thing.id in t.part_of]
        serving = [f"{t.name} has {t.busy}" for t in behind if t.busy]
        return f"it serves: {', '.join(serving)}" if serving else ""
    return _use_by_cluster(thing, holds_data=holds_data) if inventory.cluster_exists else ""


def _use_by_cluster(thing: Thing, *, holds_data: bool) -> str:
    if CONTROL_PLANE_TAG in thing.tags:
        return "the control plane that it belongs to exists"
    if thing.kind == "network interface":
        return "a node of the cluster, which exists, may be about to attach it"
    if holds_data:
        return "a claim of the cluster, which exists, may own it"
    return ""


def _block_what_others_hold(
    inventory: Inventory,
    target: Target,
    ours: dict[str, tuple[Thing, str]],
    blocked: dict[str, str],
) -> None:
    """Block what something that stays holds on to: groups by interfaces and rules, and so on."""
    leaving = set(ours) - set(blocked)
    balancers = {
        place
        for thing, _ in ours.values()
        if thing.id in leaving and thing.kind in ("load balancer", "classic load balancer")
        for place in thing.part_of
    }
    mine = {t.id for t in inventory.things if t.id in ours or is_stacks_own(t.tags, target)}
    for thing, _ in list(ours.values()):
        if thing.kind == "target group" and (staying := sorted(thing.part_of - leaving)):
            blocked.setdefault(thing.id, f"a load balancer that stays uses it: {staying[0]}")
        if thing.kind == "security group" and (
            holder := _holder(thing.id, inventory, leaving, balancers, mine)
        ):
            blocked.setdefault(thing.id, holder)


def _holder(
    group: str, inventory: Inventory, leaving: set[str], balancers: set[str], mine: set[str]
) -> str:
    """What keeps a security group from being deleted, or nothing."""
    for thing in inventory.things:
        goes_with_balancer = thing.kind == "network interface" and thing.part_of & balancers
        if group not in thing.holds or thing.id in leaving or goes_with_balancer:
            continue
        if thing.kind != "firewall rule":
            return f"{thing.kind} {thing.id} uses it"
        if not thing.part_of <= mine:
            return f"rule {thing.id} of {', '.join(thing.part_of)} refers to it"
    return ""


def _rules_to_revoke(inventory: Inventory, groups: set[str]) -> Iterable[Step]:
    """Rules that refer to groups that go; those of others' groups keep these from going."""
    for thing in inventory.things:
        if thing.kind == "firewall rule" and thing.holds & groups:
            yield Step(
                kind="firewall rule",
                id=thing.id,
                name=thing.name,
                because=f"refers to {', '.join(sorted(thing.holds))}, which goes",
                part_of=tuple(sorted(thing.part_of)),
            )


def _strangers(inventory: Inventory, target: Target, ours: set[str]) -> Iterable[Kept]:
    for thing in inventory.things:
        known = thing.id in ours or thing.made_by_aws or is_stacks_own(thing.tags, target)
        if thing.vpc in inventory.networks and not known:
            yield _kept(thing, "lies in our network and carries no tag of ours")


def _kept(thing: Thing, because: str) -> Kept:
    return Kept(kind=thing.kind, id=thing.id, name=thing.name, because=because)
