"""What tests of machines share: the archive, locks for it, and our operations on one machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hosts.repository import Deb
from tests.machines import debs
from tests.machines.image import Image
from tests.machines.machine import Machine
from tests.machines.progress import told
from tokenworks.hosts.inventory import Access, Host, Pool
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.names import part_of
from tokenworks.hosts.operate import HostReport, PoolReport, check_pool, prepare_pool, verify_pool
from tokenworks.hosts.runner import Watch
from tokenworks.hosts.settings import HostSettings

KEY_FILE = "tests.asc"
RUN_SECONDS = 20 * 60
"""When a run is cancelled, and its test fails; the longest takes two minutes on idle cores."""


def ignore(_event: Mapping[str, Any]) -> None:
    """Watch, and do nothing."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """An image, and an archive of packages that machines reach over HTTP."""

    image: Image
    archive: Path
    uri: str
    fingerprint: str
    armoured: str
    packages: tuple[Deb, ...]

    def lock(self, driver: str, toolkit: str = debs.TOOLKIT) -> HostLock:
        """Return the lock for a driver, with the kernel and compiler that the image has."""
        versions = {f"{driver}-1ubuntu1", f"{toolkit}-1", debs.CONTAINERD}
        shipped = [
            self._locked(deb.name, deb.version, _sha256(self.archive, deb))
            for deb in self.packages
            if deb.version in versions
        ]
        present = [self._locked(name, *known) for name, known in self.image.packages.items()]
        return HostLock.model_validate(
            {
                "os": "debian-12",
                "architecture": "amd64",
                "kernel": self.image.kernel,
                "driver": {"version": driver, "modules": "open", "archive": "cuda"},
                "toolkit_version": toolkit,
                "repositories": [
                    {
                        "name": "tests",
                        "uri": self.uri,
                        "suite": "./",
                        "key_file": KEY_FILE,
                        "key_fingerprint": self.fingerprint,
                    }
                ],
                "packages": present + shipped,
            }
        )

    def pool(self, machine: Machine, driver: str, toolkit: str = debs.TOOLKIT) -> Pool:
        """Return the pool of one machine, as an environment would give it."""
        return Pool(
            name="h100",
            hosts=(Host(name="gpu-1", address=machine.address, failure_domain="rack-1"),),
            access=Access(
                user="root",
                known_hosts=machine.known_hosts.read_text(),
                key_file=str(machine.image.key_file),
            ),
            lock=self.lock(driver, toolkit),
            settings=HostSettings(expected_gpus=2),
            keys={KEY_FILE: self.armoured},
            kubeconfig="",
        )

    def check(self, machine: Machine, driver: str, toolkit: str = debs.TOOLKIT) -> HostReport:
        """Return what a run would change."""
        return _run(check_pool, machine, self.pool(machine, driver, toolkit), ignore)

    def prepare(
        self, machine: Machine, driver: str, toolkit: str = debs.TOOLKIT, watch: Watch = ignore
    ) -> HostReport:
        """Bring the machine to the lock."""
        return _run(prepare_pool, machine, self.pool(machine, driver, toolkit), watch)

    def verify(self, machine: Machine, driver: str, toolkit: str = debs.TOOLKIT) -> HostReport:
        """Compare the machine with the lock and prove its GPUs."""
        return _run(verify_pool, machine, self.pool(machine, driver, toolkit), ignore)

    def _locked(self, name: str, version: str, sha256: str) -> dict[str, Any]:
        part = part_of(name)
        assert part is not None, name
        package = {"name": name, "version": version, "sha256": sha256, "part": part.value}
        return package | {"repository": "tests"}


def _sha256(archive: Path, deb: Deb) -> str:
    file = archive / "pool" / f"{deb.name}_{deb.version}_amd64.deb"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _run(
    operation: Callable[[Pool, Watch, threading.Event], PoolReport],
    machine: Machine,
    pool: Pool,
    watch: Watch,
) -> HostReport:
    """Run one of our operations on one machine, for as long as a test may take."""
    cancelled = threading.Event()
    late = threading.Timer(RUN_SECONDS, cancelled.set)
    late.start()
    try:
        with told(f"{machine}: {operation.__name__} {pool.lock.driver.version}"):
            report = operation(pool, watch, cancelled)
    finally:
        late.cancel()
    # The run may have rebooted it.
    machine.hang_up()
    return report.hosts[0]
