"""Deciding which machine images can go: none that anything could still start from.

An image that a launch template still names looks unused until the next node is to start, and by
then it is too late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tokenworks.aws.target import ENVIRONMENT_TAG, Target

KEPT_UNUSED = 2
"""Unused images kept by default: the one before the newest is what a rollback starts from."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """One machine image of this account; ``snapshots`` are what it is made of."""

    id: str
    name: str
    created: str
    tags: dict[str, str]
    snapshots: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Use:
    """That something could start from an image: an instance, a template's version, a group."""

    image: str
    by: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One image of ours, whether it goes, and why."""

    image: Image
    goes: bool
    because: str


def judge_images(
    images: Iterable[Image],
    uses: Collection[Use],
    planned: Collection[str],
    target: Target,
    *,
    keep: int = KEPT_UNUSED,
) -> tuple[Verdict, ...]:
    """Every image of ours, newest first; ``planned`` are names that the plan of today wants.

    ``keep`` counts the newest of those that nothing uses.
    """
    ours = [one for one in images if one.tags.get(ENVIRONMENT_TAG) == target.environment]
    users = {use.image: use.by for use in uses}
    verdicts: list[Verdict] = []
    spared = 0
    for image in sorted(ours, key=lambda one: (one.created, one.id), reverse=True):
        if image.id in users:
            verdicts.append(Verdict(image=image, goes=False, because=f"used by {users[image.id]}"))
        elif image.name in planned:
            because = "the environment's plan uses it"
            verdicts.append(Verdict(image=image, goes=False, because=because))
        elif spared < keep:
            spared += 1
            because = f"number {spared} of the {keep} newest unused ones, which are kept"
            verdicts.append(Verdict(image=image, goes=False, because=because))
        else:
            verdicts.append(Verdict(image=image, goes=True, because="nothing uses it"))
    return tuple(verdicts)
