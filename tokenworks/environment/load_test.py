"""Results of a load test of one replica: what it was measured on, and its levels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tokenworks.environment.json_file import read_json, refused
from tokenworks.environment.section import Section
from tokenworks.environment.values import Count, Day, ExactVersion, Positive, Repository, Switch


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
    pipeline_parallel: Count = 1
    expert_parallel: Count = 1
    attention_data_parallel: Switch = False
    prompt_tokens: Count
    output_tokens: Count
    measured_on: Day
    levels: Annotated[tuple[LoadLevel, ...], Field(min_length=2)]


def read_load_test(file: Path) -> LoadTest:
    """Read the result of a load test.

    Raises:
        ConfigError: missing, unreadable, incomplete, or with levels out of order.
    """
    found = read_json(file, LoadTest, missing="measure it, or leave load_test out")
    if any(one.concurrency >= next_.concurrency for one, next_ in pairwise(found.levels)):
        raise refused("has levels out of order", "sort them by concurrency, each one once")
    return found
