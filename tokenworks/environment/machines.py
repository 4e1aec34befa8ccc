"""How the nodes of a pool are said to be: an instance type, or machines that are described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.environment.sections import NodePool
from tokenworks.environment.yaml_source import KeyPath, YamlSource
from tokenworks.errors import Problem

DESCRIBED: Final = ("gpu", "gpus_per_node", "processors_per_node", "memory_gib_per_node")


def shape_problems(
    pool: NodePool, path: KeyPath, platform: str, source: YamlSource
) -> Iterator[Problem]:
    """Every reason why it is left open what a node of the pool is."""
    given = [key for key in DESCRIBED if getattr(pool, key) is not None]
    described = platform == "hosts" and bool(given)
    reason, remedy = "is already said by instance", "keep one of the two"
    if platform != "hosts":
        reason, remedy = f"is not a key of platform {platform}", "remove it, and name an instance"
    if platform != "hosts" or pool.instance is not None:
        for key in given:
            yield source.problem((*path, key), given=None, reason=reason, remedy=remedy)
    if pool.instance is None:
        yield from _missing(given if described else None, path, platform, source)


def _missing(
    given: list[str] | None, path: KeyPath, platform: str, source: YamlSource
) -> Iterator[Problem]:
    """What is not said: parts of a description that was begun, or an instance type."""
    if given is None:
        other = f", or describe the machines by {', '.join(DESCRIBED)}"
        remedy = f"name an instance type{other if platform == 'hosts' else ''}"
        yield source.problem((*path, "instance"), given=None, reason="is missing", remedy=remedy)
        return
    for key in (key for key in DESCRIBED if key not in given):
        meaning = NodePool.model_fields[key].description or ""
        remedy = f"add it: {meaning[0].lower()}{meaning[1:].rstrip('.')}"
        yield source.problem((*path, key), given=None, reason="is missing", remedy=remedy)
