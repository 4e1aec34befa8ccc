"""Requirements of ansible-galaxy: roles and collections.

docs.ansible.com/ansible/latest/galaxy/user_guide.html has the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.resources import UNKNOWN, Body, Value, elements, is_body, key_path
from policy.sources import is_remote

_LISTS: Final = ("roles", "collections")
_ARCHIVE: Final = re.compile(r"\.(?:tar\.gz|tgz|zip)(?:$|\?)")


@dataclass(frozen=True, kw_only=True)
class GalaxyEntry:
    """One role or collection: where it stands, its source, version, and whether git has it.

    A bare name has no version, and an entry that is not known has no known one either.
    """

    key: str
    source: Value
    version: Value
    by_git: bool
    by_url: bool


def galaxy_entries(requirements: Body) -> Iterator[GalaxyEntry]:
    """Yield each role and collection of a file, in order."""
    for name in _LISTS:
        yield from _entries(requirements.get(name), name)


def _entries(listed: Value, name: str) -> Iterator[GalaxyEntry]:
    if listed is UNKNOWN:
        yield GalaxyEntry(key=name, source=None, version=UNKNOWN, by_git=False, by_url=False)
    for index, entry in elements(listed):
        key = key_path(name, index)
        if is_body(entry):
            yield _entry(key, entry)
        else:
            version = UNKNOWN if entry is UNKNOWN else None
            yield GalaxyEntry(key=key, source=entry, version=version, by_git=False, by_url=False)


def _entry(key: str, entry: Body) -> GalaxyEntry:
    kind = entry.get("type", entry.get("scm"))
    source = entry.get("src", entry.get("source", entry.get("name")))
    if kind in {"git", "url"}:
        source = entry.get("src", entry.get("name"))
    remote = isinstance(source, str) and is_remote(source)
    galaxy_server = "source" in entry and kind in (None, "galaxy")
    by_url = kind == "url" or (remote and _ARCHIVE.search(str(source)) is not None)
    by_git = kind == "git" or (remote and not galaxy_server and not by_url)
    return GalaxyEntry(
        key=f"{key}.version",
        source=source,
        version=entry.get("version"),
        by_git=by_git,
        by_url=by_url and not galaxy_server,
    )
