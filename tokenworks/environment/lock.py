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


class Lock(Section):
    """Every image that may be deployed."""

    images: tuple[LockedImage, ...]

    def find(self, repository: str, tag: str) -> LockedImage | None:
        """The locked image for a tag, if there is one."""
        matches = (i for i in self.images if (i.repository, i.tag) == (repository, tag))
        return next(matches, None)


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
