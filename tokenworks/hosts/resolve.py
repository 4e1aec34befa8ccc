"""From what apt repositories offer to a host lock, or every reason why there can be none.

Pure: the indices are read by ``archive``. The lock holds the packages of concern that the asked
ones depend on; what is of no concern to GPUs stays with the distribution.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tokenworks.errors import ConfigError, Problem
from tokenworks.hosts import names
from tokenworks.hosts.apt_index import Offer, Relation
from tokenworks.hosts.lock import HostLock, PackageLock, Part
from tokenworks.hosts.request import LockRequest

_RELEASE: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+")
_OF_DRIVER: Final = (Part.DRIVER, Part.FABRIC_MANAGER)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A package that the request names, the key that asks for it, and its only right version."""

    name: str
    part: Part
    key: str
    version: str | None = None
    exact: bool = False

    def accepts(self, offer: Offer) -> bool:
        if self.version is None:
            return True
        return self.version == (offer.version.text if self.exact else offer.version.upstream)


@dataclass
class _Resolution:
    """What is chosen so far, and what stands against it."""

    request: LockRequest
    offers: dict[str, list[Offer]]
    chosen: dict[str, Offer] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def resolve(request: LockRequest, offered: Iterable[Offer]) -> HostLock:
    """Return the lock: for every package one version and the hash of its file.

    Raises:
        ConfigError: with every package that no repository has as asked, or that fits no other.
    """
    resolution = _Resolution(request=request, offers=_usable(request, offered))
    resolution.problems.extend(_no_driver(request))
    for asked in _asked(request):
        _choose_asked(resolution, asked)
    _close(resolution)
    if not resolution.problems:
        resolution.problems.extend(_no_programs(request, resolution.chosen))
    resolution.problems.extend(_conflicts(resolution.chosen.values()))
    if resolution.problems:
        raise ConfigError(resolution.problems)
    return HostLock(
        os=request.os,
        architecture=request.architecture,
        kernel=request.kernel,
        driver=request.driver,
        toolkit_version=request.toolkit_version,
        repositories=tuple(one.locked() for one in request.repositories),
        packages=_locked(request, resolution.chosen.values()),
    )


def _usable(request: LockRequest, offered: Iterable[Offer]) -> dict[str, list[Offer]]:
    """Offers by name, newest first: each from a repository that may bring its part."""
    parts = {one.name: one.parts for one in request.repositories}
    usable: dict[str, list[Offer]] = {}
    for offer in offered:
        if request.part_of(offer.name) in parts[offer.repository] and _fits(request, offer):
            usable.setdefault(offer.name, []).append(offer)
    for found in usable.values():
        found.sort(key=lambda offer: offer.version, reverse=True)
    return usable


def _fits(request: LockRequest, offer: Offer) -> bool:
    """Whether a package may be in the lock at all.

    Metapackages of kernels are refused: they bring the next kernel with the next update.
    """
    if request.part_of(offer.name) in (Part.KERNEL, Part.HEADERS):
        release = _RELEASE.search(offer.name)
        return (
            request.kernel.startswith(release[0]) if release else bool(re.search(r"\d", offer.name))
        )
    return True


def _asked(request: LockRequest) -> Iterator[_Asked]:
    driver = request.driver
    for name in names.driver_packages(request.os, driver, request.kernel) or ():
        part = request.part_of(name) or Part.DRIVER
        own = part is not Part.DRIVER or _independent(name)
        version = None if own else driver.version
        yield _Asked(name=name, part=part, key="driver.version", version=version)
    if request.nvidia_smi is not None:
        version, key = driver.version, "nvidia_smi"
        yield _Asked(name=request.nvidia_smi, part=Part.DRIVER, key=key, version=version)
    for name in names.fabric_packages(driver):
        part = Part.FABRIC_MANAGER
        yield _Asked(name=name, part=part, key="driver.version", version=driver.version)
    for name in names.TOOLKIT_PACKAGES:
        version = request.toolkit_version
        yield _Asked(name=name, part=Part.TOOLKIT, key="toolkit_version", version=version)
    for name, part in names.kernel_packages(request.kernel).items():
        yield _Asked(name=name, part=part, key="kernel")
    for name in request.extra_packages:
        part = request.part_of(name) or Part.OTHER
        of_driver = part in _OF_DRIVER and not _independent(name)
        version = driver.version if of_driver else None
        yield _Asked(name=name, part=part, key="extra_packages", version=version)
    yield _Asked(name=request.compiler, part=Part.COMPILER, key="compiler")
    yield _Asked(
        name=request.containerd.package,
        part=Part.CONTAINERD,
        key="containerd.version",
        version=request.containerd.version,
        exact=True,
    )


def _choose_asked(resolution: _Resolution, asked: _Asked) -> None:
    found = resolution.offers.get(asked.name, [])
    offer = next((offer for offer in found if asked.accepts(offer)), None)
    if offer is not None:
        resolution.chosen[asked.name] = offer
        return
    sources = _sources(resolution.request, asked.part)
    there = ", ".join(dict.fromkeys(offer.version.text for offer in found))
    has = f"has {asked.name} only at {there}" if there else f"has no {asked.name}"
    resolution.problems.append(
        Problem(
            key=asked.key,
            given=asked.version,
            reason=f"cannot be locked: {sources} {has}",
            remedy="choose a version that is there, or point uri at a snapshot or mirror that "
            "still has it",
        )
    )


def _close(resolution: _Resolution) -> None:
    """Follow dependencies until everything of concern is chosen."""
    waiting = deque(resolution.chosen.values())
    while waiting:
        offer = waiting.popleft()
        for group in offer.depends:
            if any(one.stands_for(r) for one in resolution.chosen.values() for r in group):
                continue
            found = _best(resolution, group)
            if found is not None:
                resolution.chosen[found.name] = found
                waiting.append(found)
            elif all(resolution.request.part_of(relation.name) for relation in group):
                resolution.problems.append(_unmet(resolution, offer, group))


def _best(resolution: _Resolution, group: tuple[Relation, ...]) -> Offer | None:
    """The newest right offer for the first alternative that has any; a real name before others."""
    for relation in group:
        named = resolution.offers.get(relation.name, [])
        everything = (o for name in sorted(resolution.offers) for o in resolution.offers[name])
        for offer in (*named, *everything):
            taken = offer.name in resolution.chosen
            if not taken and offer.stands_for(relation) and _right(resolution.request, offer):
                return offer
    return None


def _right(request: LockRequest, offer: Offer) -> bool:
    """Whether an offer has the version that its part must have."""
    part = request.part_of(offer.name)
    if part in _OF_DRIVER and not _independent(offer.name):
        return offer.version.upstream == request.driver.version
    return part is not Part.TOOLKIT or offer.version.upstream == request.toolkit_version


def _independent(name: str) -> bool:
    """Whether a package of the driver has another version than the driver."""
    return name in names.INDEPENDENT or names.follows_kernel(name)


def _no_driver(request: LockRequest) -> Iterator[Problem]:
    if names.driver_packages(request.os, request.driver, request.kernel) is None:
        yield Problem(
            key="driver.archive",
            given=request.driver.archive,
            reason=f"cannot be locked: {request.os} itself has no driver that serves",
            remedy="use archive: cuda",
        )


def _no_programs(request: LockRequest, chosen: Mapping[str, Offer]) -> Iterator[Problem]:
    """Yield what a driver lacks by which a host makes device files and proves its GPUs."""
    what = f"driver {request.driver.version} cannot be locked: it has no package that is known to"
    if request.nvidia_smi is None and not any(map(names.SMI_PACKAGE.fullmatch, chosen)):
        yield Problem(
            key="nvidia_smi",
            reason=f"{what} bring nvidia-smi, by which GPUs are proven",
            remedy="name the package that does; on a machine with such a driver `dpkg -S "
            "/usr/bin/nvidia-smi` tells it",
        )
    if names.MODPROBE_PACKAGE not in chosen:
        yield Problem(
            key="extra_packages",
            reason=f"{what} bring nvidia-modprobe, which makes the device files",
            remedy=f"add {names.MODPROBE_PACKAGE}",
        )


def _unmet(resolution: _Resolution, offer: Offer, group: tuple[Relation, ...]) -> Problem:
    wanted = " or ".join(map(str, group))
    there = [
        f"{one.name} {one.version.text} in {one.repository}"
        for relation in group
        for one in resolution.offers.get(relation.name, [])
    ]
    request = resolution.request
    return Problem(
        key="packages",
        given=f"{offer.name} {offer.version.text}",
        reason=f"depends on {wanted}, and of that there is {', '.join(there) or 'nothing'}",
        remedy="let a repository bring that part, with builds of one archive: the driver is "
        f"{request.driver.version}, the toolkit {request.toolkit_version}",
    )


def _conflicts(chosen: Iterable[Offer]) -> Iterator[Problem]:
    everything = tuple(chosen)
    for one in everything:
        for relation in one.conflicts:
            for other in everything:
                if other.name != one.name and other.stands_for(relation):
                    yield Problem(
                        key="packages",
                        given=f"{one.name} {one.version.text}",
                        reason=f"cannot be installed beside {other.name} {other.version.text}",
                        remedy="take both from one archive",
                    )


def _locked(request: LockRequest, chosen: Iterable[Offer]) -> tuple[PackageLock, ...]:
    order = list(Part)
    packages = [
        PackageLock(
            name=offer.name,
            version=offer.version.text,
            sha256=offer.sha256,
            part=request.part_of(offer.name) or Part.OTHER,
            repository=offer.repository,
        )
        for offer in chosen
    ]
    return tuple(sorted(packages, key=lambda one: (-order.index(one.part), one.name)))


def _sources(request: LockRequest, part: Part) -> str:
    sources = [one.name for one in request.repositories if part in one.parts]
    return " or ".join(sources) or f"no repository is listed for {part}, so none"
