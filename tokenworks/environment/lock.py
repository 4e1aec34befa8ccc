"""The lock: for each image tag the digest it meant, and where that was learned."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from tokenworks.environment.section import Section
from tokenworks.environment.yaml_source import read_yaml
from tokenworks.errors import ConfigError

LOCK_FILE = "images.lock"


class LockedImage(Section):
    """One tag and the digest that stands for it."""

    repository: Annotated[str, Field(min_length=1)]
    tag: Annotated[str, Field(min_length=1)]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    source: Annotated[str, Field(min_length=1)]
    read_on: datetime.date


class StandIn(Section):
    """An image made on this machine that a local node runs in place of a locked one."""

    instead_of: Annotated[str, Field(min_length=1)]
    repository: Annotated[str, Field(min_length=1)]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class StandIns(Section):
    """Every image that was made on this machine for one environment."""

    images: tuple[StandIn, ...]


class Lock(Section):
    """Every image that may be deployed, and what runs in its place on a local node."""

    images: tuple[LockedImage, ...]
    stand_ins: tuple[StandIn, ...] = ()

    def find(self, repository: str, tag: str) -> LockedImage | None:
        """The image that is deployed for a locked tag, if the tag is locked."""
        matches = (i for i in self.images if (i.repository, i.tag) == (repository, tag))
        locked = next(matches, None)
        local = next((one for one in self.stand_ins if one.instead_of == repository), None)
        if locked is None or local is None:
            return locked
        return locked.model_copy(
            update={"repository": local.repository, "digest": local.digest, "source": "made here"}
        )

    def mirrored(self, registry: str | None) -> Lock:
        """The same lock, whose images are pulled from a mirror; digests stay what they are."""
        return self if registry is None else MirroredLock(images=self.images, registry=registry)


class MirroredLock(Lock):
    """A lock whose images lie in a registry of one's own, each below the path of its origin."""

    registry: str

    def find(self, repository: str, tag: str) -> LockedImage | None:
        """The locked image for a tag of its origin, under its name in the mirror."""
        found = super().find(repository, tag)
        if found is None:
            return None
        return found.model_copy(update={"repository": f"{self.registry}/{found.repository}"})


def read_stand_ins(file: Path) -> tuple[StandIn, ...]:
    """The images that were made here; none where there is no such file."""
    if not file.exists():
        return ()
    return StandIns.model_validate_json(file.read_text("utf-8")).images


def read_lock(stacks: Path) -> Lock:
    """Read ``images.lock`` in a folder of environments.

    Raises:
        ConfigError: missing, malformed, or one tag locked twice.
    """
    source = read_yaml(stacks / LOCK_FILE)
    try:
        lock = Lock.model_validate(source.data)
    except ValidationError as error:
        problems = [
            source.problem(
                tuple(details["loc"]),
                given=None,
                reason=f"is refused ({details['msg']})",
                remedy="correct the entry",
            )
            for details in error.errors(include_url=False)
        ]
        raise ConfigError([*source.problems, *problems]) from error
    tags = [(image.repository, image.tag) for image in lock.images]
    doubled = [
        source.problem(
            ("images", index),
            given=":".join(tag),
            reason="is locked twice",
            remedy="keep one digest for each tag",
        )
        for index, tag in enumerate(tags)
        if tags.index(tag) != index
    ]
    if source.problems or doubled:
        raise ConfigError([*source.problems, *doubled])
    return lock
