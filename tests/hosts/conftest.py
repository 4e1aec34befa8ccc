"""Apt repositories for the whole folder: built once, signed by a key of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import repository
from tests.hosts.repository import Signer


@pytest.fixture(scope="session")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signer]:
    made = Signer(tmp_path_factory.mktemp("gpg") / "vendor")
    yield made
    made.end()


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Path:
    """Folder with the repositories cuda, toolkit and ubuntu, and the key in keys/."""
    folder = tmp_path_factory.mktemp("archives")
    older = repository.driver_580("580.126.20")
    cuda = [*repository.driver_580(), *older, *repository.driver_590()]
    repository.publish(folder / "cuda", cuda, signer)
    toolkits = [*repository.toolkit(), *repository.toolkit("1.17.8")]
    repository.publish(folder / "toolkit", toolkits, signer)
    newer = repository.distribution("6.8.0-90-generic", "6.8.0-90.91")
    kernels = [deb for deb in newer if deb.name.startswith("linux-")]
    ubuntu = [*repository.distribution(), *kernels]
    repository.publish(folder / "ubuntu", ubuntu, signer, suite="noble")
    (folder / "keys").mkdir()
    (folder / "keys" / "tests.asc").write_bytes(signer.armoured)
    return folder
