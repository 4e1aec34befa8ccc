"""Files of Debian packages, taken out of an installed system: what some programs need, no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.images.oci import Entry

LEFT_OUT: Final = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/")
"""What nobody reads in a container."""
_NAME: Final = re.compile(r"[^\s(:]+")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """One installed package: what it needs, and the other names that it answers to."""

    name: str
    needs: tuple[tuple[str, ...], ...]
    """Names of which one of each group must be there."""
    provides: tuple[str, ...]


def read_status(text: str) -> dict[str, Installed]:
    """The packages of dpkg's ``status`` file by name; Debian Policy 5 describes its fields."""
    packages = (_package(_fields(each)) for each in text.split("\n\n") if each.strip())
    return {package.name: package for package in packages}


def _fields(paragraph: str) -> dict[str, str]:
    unfolded = re.sub(r"\n[ \t]", " ", paragraph.strip())
    pairs = (line.partition(":") for line in unfolded.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _package(fields: Mapping[str, str]) -> Installed:
    needs = [
        tuple(_names(group.split("|")))
        for field in ("Pre-Depends", "Depends")
        for group in fields.get(field, "").split(",")
        if group.strip()
    ]
    provides = _names(filter(str.strip, fields.get("Provides", "").split(",")))
    return Installed(name=fields["Package"], needs=tuple(needs), provides=tuple(provides))


def _names(relations: Iterable[str]) -> list[str]:
    return [found[0] for each in relations if (found := _NAME.match(each.strip()))]


def closure(packages: Mapping[str, Installed], wanted: Iterable[str]) -> tuple[str, ...]:
    """The wanted packages and all that they need, by name.

    Raises:
        OperationError: one is not installed.
    """
    providers = {name: package.name for package in packages.values() for name in package.provides}
    found: set[str] = set()
    left = list(wanted)
    while left:
        name = left.pop()
        package = packages.get(name) or packages.get(providers.get(name, ""))
        if package is None:
            raise OperationError(
                f"package {name}", reason="is not in the Debian here", remedy="make it anew"
            )
        if package.name not in found:
            found.add(package.name)
            left += [_present(group, packages, providers) for group in package.needs]
    return tuple(sorted(found))


def _present(
    group: tuple[str, ...], packages: Mapping[str, Installed], providers: Mapping[str, str]
) -> str:
    """The first alternative that is installed; else the first, which is then reported."""
    there = (name for name in group if name in packages or name in providers)
    return next(there, group[0])


def files_of(root: Path, wanted: Iterable[str]) -> tuple[Entry, ...]:
    """Every file of some packages and of what they need, in a Debian at ``root``.

    A Debian has ``/bin`` and others as links into ``/usr``; files are where they really lie.
    """
    dpkg = root / "var" / "lib" / "dpkg"
    names = closure(read_status((dpkg / "status").read_text("utf-8")), wanted)
    paths = {
        _real(root, line)
        for name in names
        for line in _list(dpkg / "info", name).read_text("utf-8").splitlines()
        if line.startswith("/") and line != "/."
    }
    links = [path.name for path in root.iterdir() if path.is_symlink()]
    kept = sorted(path for path in {*paths, *links} if not _is_left_out(path))
    return tuple(entry for path in kept if (entry := _entry(root, path)) is not None)


def _list(info: Path, name: str) -> Path:
    plain = info / f"{name}.list"
    return plain if plain.exists() else next(info.glob(f"{name}:*.list"))


def _real(root: Path, line: str) -> str:
    path = root / line.lstrip("/")
    return str((path.parent.resolve() / path.name).relative_to(root.resolve()))


def _is_left_out(path: str) -> bool:
    return f"{path}/".startswith(LEFT_OUT) or "/__pycache__" in path


def _entry(root: Path, path: str) -> Entry | None:
    place = root / path
    if place.is_symlink():
        return Entry(path=path, link=str(place.readlink()))
    if place.is_dir():
        return Entry(path=path, mode=place.stat().st_mode & 0o7777)
    if place.is_file():
        # Nobody becomes root in a container of ours.
        return Entry(path=path, mode=place.stat().st_mode & 0o777, source=place)
    return None
