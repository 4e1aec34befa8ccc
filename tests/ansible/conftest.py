"""An archive and a root that all tests of this folder share, and a fresh host for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import debs, roots, world
from tests.ansible.world import Archive, Machine, Play, Ran
from tests.hosts import repository
from tests.hosts.repository import Signer
from tokenworks.hosts.lock import HostLock


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    roots.require_root()
    base = tmp_path_factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "hosts"


@pytest.fixture(scope="session")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Signer]]:
    made: list[Signer] = []

    def make(name: str) -> Signer:
        made.append(Signer(tmp_path_factory.mktemp("keys") / name))
        return made[-1]

    yield make
    for signer in made:
        signer.end()


@pytest.fixture(scope="session")
def published(
    tmp_path_factory: pytest.TempPathFactory, shared: Path, signers: Callable[[str], Signer]
) -> Iterator[Archive]:
    """The archive with every version of every package, on loopback."""
    folder = tmp_path_factory.mktemp("archive")
    signer = signers("vendor")
    repository.publish(folder, debs.everything(tmp_path_factory.mktemp("trees")), signer)
    with repository.served(folder) as port:
        yield Archive(
            folder=folder,
            uri=f"http://127.0.0.1:{port}/",
            fingerprint=signer.fingerprint,
            armoured=signer.armoured.decode(),
        )


@pytest.fixture(scope="session")
def bare(shared: Path) -> str:
    """The root that all hosts are layers above."""
    return str(roots.unpacked(shared))


@pytest.fixture(scope="session")
def as_locked(bare: str, published: Archive, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The layers of a host that a run has brought to the lock, which copies of it start from."""
    folder = tmp_path_factory.mktemp("as-locked")
    with roots.layer(bare, folder) as root:
        machine = world.furnish(root)
        ran = world.play(
            "prepare.yml", {"gpu-1": machine}, published.lock(), published, folder / "run"
        )
        assert ran.status == 0, ran.message + ran.output
    return f"{folder / 'upper'}:{bare}"


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes roots above given layers; they are unmounted when the test is over."""
    with ExitStack() as stack:
        count = iter(range(99))
        yield lambda lower: stack.enter_context(
            roots.layer(lower, tmp_path / f"host-{next(count)}")
        )


@pytest.fixture
def machine(layers: Callable[[str], Path], bare: str) -> Machine:
    """A host as its installer left it."""
    return world.furnish(layers(bare))


@pytest.fixture
def host(layers: Callable[[str], Path], as_locked: str) -> Machine:
    """A host as locked."""
    return Machine(root=layers(as_locked))


@pytest.fixture
def play(published: Archive, tmp_path: Path) -> Play:
    """Runs a playbook on one host."""

    def run(playbook: str, machine: Machine, lock: HostLock, *options: str, **told: Any) -> Ran:
        hosts, folder = {"gpu-1": machine}, tmp_path / "run"
        return world.play(playbook, hosts, lock, published, folder, options, **told)

    return run
