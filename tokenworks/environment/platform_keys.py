"""Keys that one platform needs and another does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tokenworks.environment.issuer import issuer_problems
from tokenworks.environment.machines import shape_problems
from tokenworks.environment.section import Section
from tokenworks.environment.sections import Environment, NodePool
from tokenworks.environment.yaml_source import KeyPath, YamlSource
from tokenworks.errors import Problem


@dataclass(frozen=True)
class _Keys:
    """What a platform needs, and what it knows besides, of the keys that not all know."""

    needed: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.needed, *self.known)


_POOL_KEYS: Final = {
    "simulated": _Keys(needed=("nodes", "driver_version")),
    "hosts": _Keys(needed=("machines", "host_lock"), known=("host_settings",)),
    "aws": _Keys(
        needed=("nodes",),
        known=("zone", "capacity", "release_version", "efa", "host_lock", "host_settings"),
    ),
}
_KEYS: Final = {
    "simulated": _Keys(),
    "hosts": _Keys(needed=("ssh", "cluster")),
    "aws": _Keys(needed=("aws",)),
}


def platform_problems(environment: Environment, source: YamlSource) -> list[Problem]:
    """Every key that the platform lacks or does not know, and every machine named twice."""
    platform = environment.platform
    problems = list(_of_section(environment, (), _KEYS, platform, source))
    for index, pool in enumerate(environment.node_pools):
        path: KeyPath = ("node_pools", index)
        problems += _of_section(pool, path, _POOL_KEYS, platform, source)
        problems += shape_problems(pool, path, platform, source)
    problems += _real_pools(environment, source)
    problems += _doubled_machines(environment.node_pools, source)
    problems += _missing_files(environment, source)
    problems += issuer_problems(environment, source)
    return problems


def _of_section(
    section: Section,
    path: KeyPath,
    keys: dict[str, _Keys],
    platform: str,
    source: YamlSource,
) -> Iterator[Problem]:
    for key in keys[platform].needed:
        if getattr(section, key) is None:
            yield _missing(section, (*path, key), source)
    strange = {key for names in keys.values() for key in names.all} - set(keys[platform].all)
    for key in sorted(strange):
        if getattr(section, key) != type(section).model_fields[key].default:
            yield source.problem(
                (*path, key),
                given=None,
                reason=f"is not a key of platform {platform}",
                remedy=f"remove it, or use platform {_platform_of(key, keys)}",
            )


def _real_pools(environment: Environment, source: YamlSource) -> Iterator[Problem]:
    """This machine can be one node, and only of an environment that it makes itself."""
    first: str | None = None
    for index, pool in enumerate(environment.node_pools):
        if not pool.real:
            continue
        path: KeyPath = ("node_pools", index, "real")
        if environment.platform != "simulated":
            reason, remedy = f"is not for platform {environment.platform}", "remove it"
        elif first is not None:
            reason, remedy = f"is true of {first}, too", "make one pool real"
        elif pool.nodes != 1:
            reason, remedy = f"stands beside nodes: {pool.nodes}", "write nodes: 1"
        else:
            first = pool.name
            continue
        yield source.problem(path, given="true", reason=reason, remedy=remedy)


def _missing(section: Section, path: KeyPath, source: YamlSource) -> Problem:
    key = str(path[-1])
    line = source.problem(path[:-1], given=None, reason="", remedy="").line
    meaning = type(section).model_fields[key].description or ""
    return source.problem(
        path,
        given=None,
        reason="is missing",
        remedy=f"add {key} below line {line} ({meaning.rstrip('.').lower()})",
    )


def _platform_of(key: str, keys: dict[str, _Keys]) -> str:
    return next(platform for platform, names in keys.items() if key in names.all)


def _doubled_machines(pools: tuple[NodePool, ...], source: YamlSource) -> Iterator[Problem]:
    """One machine in two places would be prepared twice at once, under two locks."""
    seen: dict[tuple[str, str], str] = {}
    for number, pool in enumerate(pools):
        for index, machine in enumerate(pool.machines or ()):
            for key in ("name", "address"):
                path: KeyPath = ("node_pools", number, "machines", index, key)
                value: str = getattr(machine, key)
                place = f"node_pools[{number}].machines[{index}]"
                first = seen.setdefault((key, value), place)
                if first != place:
                    yield source.problem(
                        path,
                        given=repr(value),
                        reason=f"is already the {key} of {first}",
                        remedy="list each machine once",
                    )


def _missing_files(environment: Environment, source: YamlSource) -> Iterator[Problem]:
    named: list[tuple[KeyPath, str, str]] = []
    if environment.ssh is not None:
        command = "write it with `ssh-keyscan`, and compare the fingerprints on the machines"
        named.append((("ssh", "known_hosts"), environment.ssh.known_hosts, command))
    for key, section in (("cluster", environment.cluster), ("aws", environment.aws)):
        if section is not None and section.certificate is not None:
            chain = section.certificate.chain
            named.append(((key, "certificate", "chain"), chain, "put the chain there, in PEM"))
    for path, name, remedy in named:
        if not (source.file.parent / name).is_file():
            yield source.problem(path, given=name, reason="does not exist", remedy=remedy)
