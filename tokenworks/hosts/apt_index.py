"""What an apt repository offers, read from its indices as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final

from debian.deb822 import Packages, Release
from debian.debian_support import NativeVersion

_NAME: Final = re.compile(r"^Package: *(\S+)", re.MULTILINE)
_PROVIDES: Final = re.compile(r"^Provides: *(.+)", re.MULTILINE)


@total_ordering
@dataclass(frozen=True)
class Version:
    """A Debian version, ordered as dpkg orders it."""

    text: str

    def __lt__(self, other: Version) -> bool:
        return bool(NativeVersion(self.text) < NativeVersion(other.text))

    @property
    def upstream(self) -> str:
        """Version of the software: without epoch and revision."""
        return str(NativeVersion(self.text).upstream_version)

    def satisfies(self, operator: str, bound: str) -> bool:
        """Whether the version is within one bound of a dependency, as Debian Policy 7.1 has it."""
        mine, other = NativeVersion(self.text), NativeVersion(bound)
        return bool(
            {
                "<<": mine < other,
                "<=": mine <= other,
                "=": mine == other,
                ">=": mine >= other,
                ">>": mine > other,
            }[operator]
        )


@dataclass(frozen=True)
class Relation:
    """One name that a package relates to, perhaps within a bound such as ``(">=", "1.2")``."""

    name: str
    bound: tuple[str, str] | None = None

    def accepts(self, version: Version | None) -> bool:
        """Whether a version will do; None is a virtual package that has none."""
        if self.bound is None:
            return True
        return version is not None and version.satisfies(*self.bound)

    def __str__(self) -> str:
        return f"{self.name} ({' '.join(self.bound)})" if self.bound else self.name


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One package at one version in one repository; ``depends`` are groups of alternatives."""

    name: str
    version: Version
    sha256: str
    repository: str
    depends: tuple[tuple[Relation, ...], ...] = ()
    provides: tuple[Relation, ...] = ()
    conflicts: tuple[Relation, ...] = ()

    def stands_for(self, relation: Relation) -> bool:
        """Whether this package is what a dependency asks for, by its name or one it provides."""
        if relation.name == self.name:
            return relation.accepts(self.version)
        return any(
            provided.name == relation.name
            and relation.accepts(Version(provided.bound[1]) if provided.bound else None)
            for provided in self.provides
        )


def offers(
    packages_index: str, repository: str, is_of_concern: Callable[[str], object]
) -> Iterator[Offer]:
    """Read the packages of concern from a ``Packages`` index.

    A distribution's index has sixty thousand paragraphs, so that only those are parsed whose name,
    or a name that they provide, is of concern.
    """
    for paragraph in packages_index.split("\n\n"):
        if not any(map(is_of_concern, _names(paragraph))):
            continue
        fields = Packages(paragraph.splitlines())
        relations: dict[str, list[list[dict[str, Any]]]] = fields.relations
        yield Offer(
            name=fields["Package"],
            version=Version(fields["Version"]),
            sha256=fields["SHA256"],
            repository=repository,
            depends=tuple(
                tuple(map(_relation, group))
                for kind in ("pre-depends", "depends")
                for group in relations[kind]
            ),
            provides=_flat(relations["provides"]),
            conflicts=_flat([*relations["conflicts"], *relations["breaks"]]),
        )


def listed_hashes(release: str) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size of each index that a ``Release`` file lists, by path."""
    entries: list[dict[str, str]] = Release(release.splitlines()).get("SHA256") or []
    return {entry["name"]: (entry["sha256"], int(entry["size"])) for entry in entries}


def _names(paragraph: str) -> Iterator[str]:
    if name := _NAME.search(paragraph):
        yield name[1]
    if provides := _PROVIDES.search(paragraph):
        yield from (entry.split()[0] for entry in provides[1].split(",") if entry.strip())


def _relation(found: dict[str, Any]) -> Relation:
    bound = found.get("version")
    return Relation(found["name"], (bound[0], bound[1]) if bound else None)


def _flat(groups: Iterable[list[dict[str, Any]]]) -> tuple[Relation, ...]:
    return tuple(_relation(found) for group in groups for found in group)
