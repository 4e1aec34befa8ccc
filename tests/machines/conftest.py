"""The image, the archive and machines of one's own; whatever is started is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.hosts import repository
from tests.hosts.repository import Signer
from tests.machines import debs
from tests.machines.image import Image, image, require_machines
from tests.machines.machine import Machine, machine
from tests.machines.site import Site


@pytest.fixture(scope="session")
def furnished() -> Image:
    """The disk that machines start from."""
    require_machines()
    return image()


@pytest.fixture(scope="session")
def site(furnished: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An archive with every version of every package, as machines reach it."""
    folder = tmp_path_factory.mktemp("archive")
    signer = Signer(tmp_path_factory.mktemp("keys") / "vendor")
    packages = debs.everything(tmp_path_factory.mktemp("trees"))
    repository.publish(folder, packages, signer)
    with repository.served(folder) as port:
        yield Site(
            image=furnished,
            archive=folder,
            # How qemu's network names the machine that it runs on.
            uri=f"http://10.0.2.2:{port}/",
            fingerprint=signer.fingerprint,
            armoured=signer.armoured.decode(),
            packages=tuple(packages),
        )
    signer.end()


@pytest.fixture(scope="module")
def machines(
    furnished: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Machine]]:
    """Makes machines as the image is, powered off; they end with the file that made them."""
    with ExitStack() as stack:

        def make() -> Machine:
            folder = tmp_path_factory.mktemp("machine") / "disk"
            return stack.enter_context(machine(furnished, folder))

        yield make
