"""Files of YAML as checked data."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tokenworks.environment.yaml_source import read_yaml
from tokenworks.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


def read_as(file: Path, model: type[M]) -> M:
    """Read a file as one kind of data.

    Raises:
        ConfigError: missing, unreadable, or with every bad value at its key path and line.
    """
    source = read_yaml(file)
    try:
        found = model.model_validate(source.data)
    except ValidationError as error:
        refused = [
            source.problem(
                tuple(details["loc"]),
                given=None,
                reason=f"is refused ({details['msg']})",
                remedy="correct it there",
            )
            for details in error.errors(include_url=False)
        ]
        raise ConfigError([*source.problems, *refused]) from error
    if source.problems:
        raise ConfigError(source.problems)
    return found
