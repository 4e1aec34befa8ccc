"""JSON files that an environment names, read into a section or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from tokenworks.environment.section import Section
from tokenworks.errors import ConfigError, Problem

Read = TypeVar("Read", bound=Section)


def read_json(file: Path, section: type[Read], *, missing: str) -> Read:
    """The content of a JSON file; ``missing`` says what to do where there is none.

    Raises:
        ConfigError: missing, unreadable or incomplete; its problem carries no key, since only the
            caller knows which one names the file.
    """
    try:
        return section.model_validate(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        raise refused("does not exist", missing) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise refused(f"is incomplete at {where} ({first['msg']})", "correct it there") from error
    except (OSError, ValueError) as error:
        raise refused(f"cannot be read ({error})", "make it a JSON file") from error


def refused(reason: str, remedy: str) -> ConfigError:
    """One refusal about a file as a whole."""
    return ConfigError([Problem(key="", reason=reason, remedy=remedy)])
