"""The life of a GPU host: installed, left alone, tampered with, upgraded, cut off.

Every test but the first has a machine of its own that goes on from where the first run ended, so
that none depends on another and none waits for an installation.
"""

from __future__ import annotations

import pytest

from tests.machines.conftest import First
from tests.machines.debs import NEWER, OLD, OTHER_TOOLKIT, TOOLKIT
from tests.machines.findings import findings
from tests.machines.machine import Machine
from tests.machines.site import Site
from tokenworks.hosts.outcome import Outcome

pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("machines")]


def test_a_fresh_machine_whose_gpus_nouveau_holds_becomes_as_locked(
    site: Site, first: First, host: Machine
) -> None:
    assert "nouveau" in first.drivers_before
    assert first.report.outcome is Outcome.CHANGED, first.report
    assert first.report.change_class == "driver"
    assert "nouveau holds the GPUs" in first.report.changes
    assert host.boot_id != first.boot_before
    assert (host.driver, host.kernel) == (OLD, site.image.kernel)
    assert "nouveau" not in host.run("cat /proc/modules")
    built = host.run("dkms status")
    assert f"nvidia/{OLD}, {site.image.kernel}, x86_64: installed" in built
    assert host.unit("kubelet") == host.unit("tokenworks-gate") == "active"
    assert findings(host) == {}


def test_a_second_run_changes_nothing(site: Site, host: Machine) -> None:
    before = host.boot_id
    report = site.prepare(host, OLD)
    assert (report.outcome, report.changes, report.steps) == (Outcome.SAME, (), ())
    assert host.boot_id == before
    assert site.verify(host, OLD).outcome.good


def test_what_somebody_installed_at_other_versions_is_seen_and_put_back_and_its_users_restarted(
    site: Site, host: Machine
) -> None:
    """Newer than locked and older, the rest equal; a library's users keep it open (aicr#973)."""
    hostengine(host)
    users = {unit: process(host, unit) for unit in ("nvidia-persistenced", "nvidia-dcgm")}
    before = host.boot_id
    names = ("libnvidia-compute-580", "nvidia-utils-580")
    forced = " ".join(f"{name}={NEWER}-1ubuntu1" for name in names)
    assert "held packages" in host.run(f"apt-get install -y {forced} 2>&1", status=100)
    older = f"libnvidia-container1_{OTHER_TOOLKIT}-1_amd64.deb"
    host.copy(site.archive / "pool" / older, "/root/older.deb")
    host.run(f"apt-get install -y --allow-change-held-packages {forced}")
    host.run("dpkg --install /root/older.deb")
    assert "version mismatch" in host.run("nvidia-smi -L", status=18)

    found = site.verify(host, OLD)
    assert not found.outcome.good
    report = site.prepare(host, OLD)
    assert report.outcome is Outcome.CHANGED, report
    assert report.change_class == "driver"
    for change in (
        f"nvidia-utils-580 is at {NEWER}-1ubuntu1, locked at {OLD}-1ubuntu1",
        f"libnvidia-container1 is at {OTHER_TOOLKIT}-1, locked at {TOOLKIT}-1",
    ):
        assert change in report.changes
        assert change in found.message
    assert not [change for change in report.changes if change.startswith("libnvidia-cfg1-580 ")]
    assert host.version("nvidia-utils-580") == f"{OLD}-1ubuntu1"
    assert host.version("libnvidia-container1") == f"{TOOLKIT}-1"
    assert host.run("nvidia-smi -L").count("GPU ") == 2
    assert host.boot_id == before
    for unit, old in users.items():
        assert process(host, unit) not in ("0", old), unit


def hostengine(host: Machine) -> None:
    """Start a service that keeps the driver open, under the name of NVIDIA's own."""
    program = "/usr/local/bin/nv-hostengine"
    host.write(program, "#!/bin/sh\nexec 3</dev/nvidiactl\nwhile sleep 3600 3<&-; do :; done\n")
    unit = f"[Service]\nExecStart={program}\n"
    host.write("/etc/systemd/system/nvidia-dcgm.service", unit)
    host.run(f"chmod 0755 {program} && systemctl daemon-reload && systemctl start nvidia-dcgm")


def process(host: Machine, unit: str) -> str:
    """Number of a unit's main process, 0 where it does not run."""
    return host.run(f"systemctl show --value --property=MainPID {unit}").strip()


def reloads(host: Machine) -> int:
    """How often systemd has read its units anew since it started."""
    return int(
        host.run("journalctl --boot _PID=1 --output=cat | grep -c '^Reloading[.]'", status=None)
    )


def test_a_node_at_work_gets_no_reload_no_restart_and_no_driver(site: Site, host: Machine) -> None:
    """Under the systemd cgroup driver a reload takes GPUs from containers (gpu-operator#485)."""
    worker = host.run("sleep infinity </dev/nvidia0 >/dev/null 2>&1 & echo $!").strip()
    before = reloads(host), process(host, "containerd"), process(host, "kubelet"), host.boot_id

    host.run("apt-mark unhold nvidia-utils-580 && rm /etc/tokenworks/node-labels")
    report = site.prepare(host, OLD)
    assert (report.outcome, report.change_class) == (Outcome.CHANGED, "configuration"), report
    assert "nvidia-utils-580" in host.run("apt-mark showhold").split()

    unit = "/etc/systemd/system/tokenworks-gpu-devices.service"
    host.run(f"echo '# by hand' >> {unit}")
    for driver in (OLD, NEWER):
        report = site.prepare(host, driver)
        assert report.outcome is Outcome.FAILED, report
        assert f"this run stops what uses the GPUs, and sleep ({worker}) does" in report.message
    assert "# by hand" in host.run(f"cat {unit}")
    assert (host.driver, host.version("nvidia-utils-580")) == (OLD, f"{OLD}-1ubuntu1")
    after = reloads(host), process(host, "containerd"), process(host, "kubelet"), host.boot_id
    assert after == before

    host.run(f"kill {worker}")
    assert site.prepare(host, OLD).outcome is Outcome.CHANGED
    assert reloads(host) > before[0]


def test_a_kernel_installed_without_headers_keeps_the_node_out_and_a_run_brings_it_back(
    site: Site, host: Machine
) -> None:
    newer = site.image.newer_kernel
    host.copy(site.image.newer_kernel_package, "/root/kernel.deb")
    host.run("dpkg --install /root/kernel.deb", seconds=1200)
    assert site.check(host, OLD).changes == ()  # it is there, and the boot loader does not start it

    entry = f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {newer}"
    host.run(f"grub-reboot '{entry}'")
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
