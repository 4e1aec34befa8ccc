"""Another lock on a machine that is at one: a newer driver, a newer branch, and what gets between.

Every test has a machine of its own that goes on from where the first run ended.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hosts import repository
from tests.hosts.repository import Signer
from tests.machines import debs
from tests.machines.debs import NEWER, NEXT_BRANCH, OLD, OTHER_TOOLKIT, TOOLKIT
from tests.machines.findings import findings
from tests.machines.machine import Machine
from tests.machines.site import Site
from tokenworks.hosts.operate import HostReport
from tokenworks.hosts.outcome import Outcome
from tokenworks.hosts.progress import task_of

pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("machines")]

PACKAGES = "base : Bring all packages to the lock in one transaction"


def cut_during(
    site: Site, host: Machine, driver: str, sign: str, cut: Callable[[], None]
) -> HostReport:
    """Begin a run, cut it once a sign of its packages shows on the host; what the run says."""
    began = threading.Event()

    def watch(event: Mapping[str, Any]) -> None:
        if event.get("event") == "runner_on_start" and task_of(event) == PACKAGES:
            began.set()

    reports: list[HostReport] = []

    def run() -> None:
        reports.append(site.prepare(host, driver, watch=watch))

    running = threading.Thread(target=run)
    running.start()
    try:
        while not began.wait(timeout=1):
            assert running.is_alive(), reports
        host.run(f"until test -e {sign}; do sleep 0.2; done")
        cut()
    finally:
        running.join()
    return reports[0]


def test_an_upgrade_within_a_branch_is_one_reboot(site: Site, host: Machine) -> None:
    before = host.boot_id
    report = site.prepare(host, NEWER)
    assert (report.outcome, report.change_class) == (Outcome.CHANGED, "driver"), report
    assert host.boot_id != before
    assert host.driver == NEWER
    assert host.run("nvidia-smi -L").count("GPU ") == 2
    built = host.run("dkms status").splitlines()
    assert built == [f"nvidia/{NEWER}, {site.image.kernel}, x86_64: installed"]
    assert host.run("journalctl --list-boots --quiet | wc -l").strip() == "3"  # bare, first, this
    assert host.unit("kubelet") == "active"
    assert findings(host) == {}


def test_a_power_failure_in_the_middle_of_an_upgrade_keeps_the_node_out_until_a_run_ends_it(
    site: Site, host: Machine
) -> None:
    report = cut_during(site, host, NEWER, f"/usr/src/nvidia-{NEWER}", host.cut_power)
    assert report.outcome is Outcome.UNREACHABLE, report
    assert report.task == PACKAGES

    host.start()
    assert host.unit("kubelet") == "inactive"
    assert "packages" in findings(host)

    report = site.prepare(host, NEWER)
    assert report.outcome is Outcome.CHANGED, report
    assert host.driver == NEWER
    assert host.run("dpkg --audit") == ""
    assert host.unit("kubelet") == "active"
    assert site.check(host, NEWER).steps == ()


def test_a_lost_connection_in_the_middle_of_a_branch_change_is_told_and_a_run_ends_it(
    site: Site, host: Machine
) -> None:
    """The names of packages change with the branch: the old ones leave as the new ones come."""
    sign = f"/usr/src/nvidia-{NEXT_BRANCH}"
    report = cut_during(site, host, NEXT_BRANCH, sign, lambda: host.set_wire(connected=False))
    host.set_wire(connected=True)
    assert report.outcome is Outcome.UNREACHABLE, report

    report = site.prepare(host, NEXT_BRANCH)
    assert report.outcome is Outcome.CHANGED, report
    assert host.driver == NEXT_BRANCH
    installed = host.run("dpkg-query --show --showformat='${db:Status-Status} ${Package}\n'")
    assert not re.findall(r"^installed (\S*nvidia\S*-580\S*)$", installed, re.MULTILINE)
    assert host.version("nvidia-dkms-open") == f"{NEXT_BRANCH}-1ubuntu1"
    assert host.unit("kubelet") == "active"
    assert findings(host) == {}


@pytest.fixture
def successor(tmp_path: Path) -> Iterator[Signer]:
    """The vendor's next key."""
    signer = Signer(tmp_path / "successor")
    yield signer
    signer.end()


def test_a_repository_that_is_gone_or_signed_by_another_key_changes_nothing_until_it_is_locked_anew(
    site: Site, host: Machine, successor: Signer, tmp_path: Path
) -> None:
    before = host.boot_id
    gone = dataclasses.replace(site, uri=f"{site.uri}gone/")
    rotated_place = tmp_path / "rotated"
    debs.signed_again(site.archive, rotated_place, successor)
    with repository.served(rotated_place) as port:
        rotated = dataclasses.replace(site, uri=f"http://10.0.2.2:{port}/")
        for archive, said in (
            (gone, "a repository of the lock cannot be read; check that the host reaches it"),
            (rotated, "is not signed by the key of the lock; compare the vendor's announced"),
        ):
            report = archive.prepare(host, OLD, OTHER_TOOLKIT)
            assert report.outcome is Outcome.FAILED, report
            assert said in report.message
            assert host.version("nvidia-container-toolkit") == f"{TOOLKIT}-1"
            assert (host.driver, host.unit("kubelet")) == (OLD, "active")

        locked = dataclasses.replace(
            rotated, fingerprint=successor.fingerprint, armoured=successor.armoured.decode()
        )
        report = locked.prepare(host, OLD, OTHER_TOOLKIT)
    assert (report.outcome, report.change_class) == (Outcome.CHANGED, "toolkit"), report
    assert host.version("nvidia-container-toolkit") == f"{OTHER_TOOLKIT}-1"
    assert host.boot_id == before
