"""The image, the archive and machines of one's own; whatever is started is ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.hosts import repository
from tests.hosts.repository import Signer
from tests.machines import debs, progress
from tests.machines.image import Image, image, require_machines
from tests.machines.machine import Frozen, Machine, machine
from tests.machines.site import Site
from tokenworks.hosts.operate import HostReport


@dataclass(frozen=True, kw_only=True)
class First:
    """A fresh machine's first run: what it was before, what the run says, what it is now."""

    drivers_before: str
    boot_before: str
    report: HostReport
    after: Frozen


@pytest.fixture(scope="session", autouse=True)
def visible(request: pytest.FixtureRequest) -> None:
    """Boots and runs are told past pytest's capture: each takes a while."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        progress.show_past(capture.global_and_fixture_disabled)


@pytest.fixture(scope="session")
def furnished() -> Image:
    """The disk that machines start from."""
    require_machines()
    return image()


@pytest.fixture(scope="session")
def signer(furnished: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signer]:
    """The vendor's key."""
    signer = Signer(tmp_path_factory.mktemp("keys") / "vendor")
    yield signer
    signer.end()


@pytest.fixture(scope="session")
def site(
    furnished: Image, signer: Signer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """An archive with every version of every package, as machines reach it."""
    folder = tmp_path_factory.mktemp("archive")
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


@pytest.fixture(scope="session")
def first(
    site: Site, furnished: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[First]:
    """The first run on a machine with two GPUs and nothing of ours."""
    with machine(furnished, tmp_path_factory.mktemp("machine") / "first") as made:
        made.start()
        drivers, boot = made.run("lspci -k -d 10de:"), made.boot_id
        report = site.prepare(made, debs.OLD)
        yield First(drivers_before=drivers, boot_before=boot, report=report, after=made.freeze())


@pytest.fixture
def host(
    first: First, furnished: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """A machine of the test's own that runs as the first run left it: at the lock of OLD."""
    assert first.report.outcome.good, f"the first run failed: {first.report}"
    with machine(furnished, tmp_path_factory.mktemp("machine") / "own", first.after) as made:
        made.start()
        yield made
