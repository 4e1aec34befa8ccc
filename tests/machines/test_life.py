"""The life of a GPU host, on one machine: installed, left alone, tampered with, upgraded, cut off.

The tests are one story, since a boot takes half a minute and a module as long to build. Each says
first what it needs the machine to be; if an earlier one failed, ``locked`` makes it so.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.machines.debs import NEWER, NEXT_BRANCH, OLD
from tests.machines.machine import Machine
from tests.machines.site import Site
from tokenworks.hosts.operate import HostReport
from tokenworks.hosts.outcome import Outcome
from tokenworks.hosts.progress import task_of

pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("machines")]

PACKAGES = "base : Bring all packages to the lock in one transaction"
FAULT = "/etc/modprobe.d/fault.conf"


@pytest.fixture(scope="module")
def host(machines: Callable[[], Machine]) -> Machine:
    """A machine with two GPUs and nothing of ours, switched on."""
    made = machines()
    made.start()
    return made


def locked(site: Site, host: Machine, driver: str) -> Machine:
    """The machine, on and at a lock, whatever became of it before."""
    if not host.is_on:
        host.start()
    report = site.prepare(host, driver)
    assert report.outcome.good, report
    return host


def findings(host: Machine, report_file: str = "/run/tokenworks/gate.json") -> dict[str, str]:
    """Outcome of each check that was neither passed nor skipped, at the last boot."""
    report = json.loads(host.run(f"cat {report_file}"))
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    return {n: outcome for n, outcome in outcomes.items() if outcome not in ("passed", "skipped")}


def test_a_fresh_machine_whose_gpus_nouveau_holds_becomes_as_locked(
    site: Site, host: Machine
) -> None:
    assert "nouveau" in host.run("lspci -k -d 10de:")
    before = host.boot_id
    report = site.prepare(host, OLD)
    assert report.outcome is Outcome.CHANGED, report
    assert report.change_class == "driver"
    assert "nouveau holds the GPUs" in report.changes
    assert host.boot_id != before
    assert (host.driver, host.kernel) == (OLD, site.image.kernel)
    assert "nouveau" not in host.run("cat /proc/modules")
    built = host.run("dkms status")
    assert f"nvidia/{OLD}, {site.image.kernel}, x86_64: installed" in built
    assert host.unit("kubelet") == host.unit("tokenworks-gate") == "active"
    assert findings(host) == {}


def test_a_second_run_changes_nothing(site: Site, host: Machine) -> None:
    before = locked(site, host, OLD).boot_id
    report = site.prepare(host, OLD)
    assert (report.outcome, report.changes, report.steps) == (Outcome.SAME, (), ())
    assert host.boot_id == before
    assert site.verify(host, OLD).outcome.good


def test_packages_that_somebody_forced_to_another_version_are_seen_and_put_back(
    site: Site, host: Machine
) -> None:
    before = locked(site, host, OLD).boot_id
    names = ("libnvidia-compute-580", "nvidia-utils-580")
    forced = " ".join(f"{name}={NEWER}-1ubuntu1" for name in names)
    assert "held packages" in host.run(f"apt-get install -y {forced} 2>&1", status=100)
    host.run(f"apt-get install -y --allow-change-held-packages {forced}")
    assert "version mismatch" in host.run("nvidia-smi -L", status=18)

    found = site.check(host, OLD)
    assert found.change_class == "driver"
    assert f"nvidia-utils-580 is at {NEWER}-1ubuntu1, locked at {OLD}-1ubuntu1" in found.changes
    assert not site.verify(host, OLD).outcome.good
    assert host.version("nvidia-utils-580") == f"{NEWER}-1ubuntu1"

    locked(site, host, OLD)
    assert host.version("nvidia-utils-580") == f"{OLD}-1ubuntu1"
    assert host.run("nvidia-smi -L").count("GPU ") == 2
    assert host.boot_id == before


def test_a_kernel_installed_without_headers_keeps_the_node_out_and_a_run_brings_it_back(
    site: Site, host: Machine
) -> None:
    newer = site.image.newer_kernel
    locked(site, host, OLD).copy(site.image.newer_kernel_package, "/root/kernel.deb")
    host.run("dpkg -i /root/kernel.deb", seconds=1200)
    found = site.check(host, OLD)
    assert found.changes == ()  # it is there, and the boot loader does not start it

    entry = f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {newer}"
    host.run(f"grub-reboot '{entry}'")
    found = site.check(host, OLD)
    assert f"the next boot starts {newer}, locked is {site.image.kernel}" in found.changes

    host.reboot()
    assert (host.kernel, host.driver) == (newer, "")
    assert host.unit("tokenworks-gate") == "failed"
    assert host.unit("kubelet") == "inactive"
    assert {"gpus", "driver"} <= set(findings(host))

    report = site.prepare(host, OLD)
    assert report.outcome is Outcome.CHANGED, report
    assert report.change_class == "kernel"
    assert (host.kernel, host.driver) == (site.image.kernel, OLD)
    assert host.unit("kubelet") == "active"


def cut_during(
    site: Site, host: Machine, driver: str, sign: str, cut: Callable[[], None]
) -> HostReport:
    """Begin a run, cut it once a sign of its packages shows on the host; what the run says."""
    began = threading.Event()

    def watch(event: Mapping[str, Any]) -> None:
        if event.get("event") == "runner_on_start" and task_of(event) == PACKAGES:
            began.set()

    reports: list[HostReport] = []
    running = threading.Thread(target=lambda: reports.append(site.prepare(host, driver, watch)))
    running.start()
    while not began.wait(timeout=1):
        assert running.is_alive(), reports
    host.run(f"until test -e {sign}; do sleep 0.2; done")
    cut()
    running.join()
    if host.is_on:
        host.set_wire(connected=True)
    return reports[0]


def test_a_power_failure_in_the_middle_of_an_upgrade_keeps_the_node_out_until_a_run_ends_it(
    site: Site, host: Machine
) -> None:
    locked(site, host, OLD)
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
    locked(site, host, NEWER)
    report = cut_during(
        site,
        host,
        NEXT_BRANCH,
        f"/usr/src/nvidia-{NEXT_BRANCH}",
        lambda: host.set_wire(connected=False),
    )
    assert report.outcome is Outcome.UNREACHABLE, report

    report = site.prepare(host, NEXT_BRANCH)
    assert report.outcome is Outcome.CHANGED, report
    assert host.driver == NEXT_BRANCH
    assert (host.version("nvidia-dkms-580-open"), host.version("nvidia-utils-580")) == ("", "")
    assert host.version("nvidia-dkms-open") == f"{NEXT_BRANCH}-1ubuntu1"
    assert host.unit("kubelet") == "active"


def examined(host: Machine) -> dict[str, str]:
    """What the gate finds now, not at boot."""
    program = "/usr/local/lib/tokenworks/host_gate.py --expect /etc/tokenworks/gate.json"
    host.run(f"python3 -B {program} --output /run/gate-by-hand.json", status=None)
    return findings(host, "/run/gate-by-hand.json")


def test_the_gate_finds_each_fault_of_the_driver(site: Site, host: Machine) -> None:
    locked(site, host, NEXT_BRANCH).run("systemctl stop nvidia-persistenced")
    faults = {
        "load": {"gpus": "broke", "driver": "failed"},
        "version": {"gpus": "broke", "driver": "failed"},
        "xid": {"xid": "failed"},
    }
    for fault, found in faults.items():
        host.run("rmmod nvidia-uvm nvidia", status=None)
        host.run(f"modprobe nvidia fault={fault}", status=None)
        assert found.items() <= examined(host).items(), fault


def test_a_driver_that_is_not_the_locked_one_after_boot_keeps_the_node_out(
    site: Site, host: Machine
) -> None:
    locked(site, host, NEXT_BRANCH).write(FAULT, "options nvidia fault=version\n")
    host.reboot()
    assert host.driver == "1.2.3"
    assert host.unit("tokenworks-gate") == "failed"
    assert host.unit("kubelet") == "inactive"
    assert findings(host)["driver"] == "failed"
    found = site.check(host, NEXT_BRANCH)
    assert f"driver 1.2.3 is loaded, locked is {NEXT_BRANCH}" in found.changes

    host.run(f"rm {FAULT}")
    locked(site, host, NEXT_BRANCH)
    assert host.driver == NEXT_BRANCH
    assert host.unit("kubelet") == "active"
