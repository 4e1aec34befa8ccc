"""Results of a load test of one replica: what it was measured on, and its levels."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from tokenworks.environment.sections import Section
from tokenworks.environment.values import Count, Day, ExactVersion, Positive, Repository
from tokenworks.errors import ConfigError, Problem


class LoadLevel(Section):
    """One level: sequences in flight, output tokens of all of them together, first tokens."""

    concurrency: Count
    output_tokens_per_second: Positive
    time_to_first_token_p95_seconds: Positive


class LoadTest(Section):
    """A load test of one replica, after warm-up, without a queue in front."""

    repository: Repository
    engine: Annotated[str, Field(min_length=1)]
    engine_version: ExactVersion
    gpu: Annotated[str, Field(min_length=1)]
    tensor_parallel: Count
    prompt_tokens: Count
    output_tokens: Count
    measured_on: Day
    levels: Annotated[tuple[LoadLevel, ...], Field(min_length=2)]


def read_load_test(file: Path) -> LoadTest:
    """Read the result of a load test.

    Raises:
        ConfigError: missing, unreadable, incomplete, or with levels out of order.
    """
    try:
        found = LoadTest.model_validate(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        raise _refuse("does not exist", "measure it, or leave load_test out") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _refuse(f"is incomplete at {where} ({first['msg']})", "correct it there") from error
    except (OSError, ValueError) as error:
        raise _refuse(f"cannot be read ({error})", "make it a JSON file") from error
    if any(one.concurrency >= next_.concurrency for one, next_ in pairwise(found.levels)):
        raise _refuse("has levels out of order", "sort them by concurrency, each one once")
    return found


def _refuse(reason: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key="", reason=reason, remedy=remedy)])
