"""Hosts brought to their lock, with real apt, dpkg, containerd and nvidia-ctk."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.ansible import debs, world
from tests.ansible.debs import DRIVER, KERNEL, NEW_BRANCH, NEWER_DRIVER, NEWER_KERNEL
from tests.ansible.world import Archive, Machine, Play

TRANSACTION = "Bring all packages to the lock in one transaction"


def test_a_bare_host_became_as_locked_and_proved_its_gpus(
    host: Machine, play: Play, published: Archive
) -> None:
    lock = published.lock()
    wanted = {p.name: p.version for p in lock.packages if p.part != "fabric_manager"}
    assert wanted.items() <= host.packages.items()
    assert debs.BESIDE.items() <= host.packages.items()
    assert "nvidia-fabricmanager" not in host.packages
    assert f"  {DRIVER}  " in host.text("proc/driver/nvidia/version")
    assert host.text("proc/modules") == ""
    assert host.run("apt-mark", "showhold").split() == sorted(wanted)
    assert host.text("var/log/apt/history.log").count("Commandline: apt-get") == 1
    report = json.loads(host.text("run/tokenworks/gate.json"))
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    assert set(outcomes.values()) == {"passed", "skipped"}
    assert outcomes["gpus"] == outcomes["containerd"] == outcomes["cdi"] == "passed"


def test_a_second_run_changes_nothing_and_needs_one_look(
    host: Machine, play: Play, published: Archive
) -> None:
    before, log = host.snapshot(), host.log
    ran = play("prepare.yml", host, published.lock())
    assert (ran.status, ran.changed, ran.changes["steps"]) == (0, [], [])
    assert list(ran.tasks) == ["Plan what differs from the lock"]
    assert (host.snapshot(), host.log) == (before, log)
    assert play("verify.yml", host, published.lock()).status == 0


def test_a_dry_run_shows_the_plan_of_the_real_one_and_changes_nothing(
    machine: Machine, play: Play, published: Archive
) -> None:
    before = machine.snapshot()
    plans = [
        play("check.yml", machine, published.lock()).changes,
        play("prepare.yml", machine, published.lock(), "--check").changes,
    ]
    assert (machine.snapshot(), machine.log) == (before, [])
    real = play("prepare.yml", machine, published.lock())
    assert real.status == 0, real.message
    assert plans == [real.changes, real.changes]
    assert real.changes["change_class"] == "kernel"
    brought = real.tasks[f"base : {TRANSACTION}"]["tokenworks"]["brought"]
    assert brought == [f"{name} {version}" for name, version in debs.BESIDE.items()]


def test_an_upgrade_within_a_branch_is_one_transaction_and_one_reboot(
    host: Machine, play: Play, published: Archive
) -> None:
    reboots = len([line for line in host.log if line.startswith("shutdown")])
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 0, ran.message
    assert f"  {NEWER_DRIVER}  " in host.text("proc/driver/nvidia/version")
    assert {v for n, v in host.packages.items() if "580" in n} == {f"{NEWER_DRIVER}-1ubuntu1"}
    assert len([line for line in host.log if line.startswith("shutdown")]) == reboots + 1
    assert host.text("var/log/apt/history.log").count("Commandline: apt-get") == 2


def test_services_that_start_after_ssh_are_waited_for(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("var/lib/stand-in/faults.json", '{"slow_boot": true}')
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 0, ran.message
    assert (host.root / "var/lib/stand-in/active/nvidia-persistenced.service").exists()


def test_a_branch_change_across_the_change_of_names_swaps_names_in_one_transaction(
    host: Machine, play: Play, published: Archive
) -> None:
    ran = play("prepare.yml", host, published.lock(NEW_BRANCH))
    assert ran.status == 0, ran.message
    assert f"  {NEW_BRANCH}  " in host.text("proc/driver/nvidia/version")
    assert not [name for name in host.packages if "580" in name]
    assert host.packages["nvidia-dkms-open"] == f"{NEW_BRANCH}-1ubuntu1"
    assert not [name for name in host.run("apt-mark", "showhold").split() if "580" in name]
    last = host.text("var/log/apt/history.log").split("Start-Date")[-1]
    assert "Install: " in last
    assert "Remove: " in last
    assert play("prepare.yml", host, published.lock(NEW_BRANCH)).changed == []


def test_modules_of_the_other_flavour_leave_though_their_version_is_the_locked_one(
    host: Machine, play: Play, published: Archive
) -> None:
    line = host.text("proc/driver/nvidia/version")
    host.write("proc/driver/nvidia/version", line.replace(" Open ", " "))
    verified = play("verify.yml", host, published.lock())
    assert "proprietary modules are loaded, locked is open" in verified.message
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert ran.changes["steps"] == ["drain", "reboot", "verify", "uncordon"]
    assert host.text("proc/driver/nvidia/version") == line
    assert play("prepare.yml", host, published.lock()).changed == []


def test_a_boot_loader_without_submenus_boots_the_locked_kernel_and_settles(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/default/grub.d/10-flat.cfg", "GRUB_DISABLE_SUBMENU=y\n")
    host.write(f"boot/vmlinuz-{NEWER_KERNEL}", "")
    host.write("etc/default/grub.d/50-tokenworks-kernel.cfg", "GRUB_DEFAULT=0\n")
    host.run("update-grub")
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    host.run("/usr/local/lib/stand-in/boot")
    assert host.text("proc/sys/kernel/osrelease") == f"{KERNEL}\n"
    assert play("prepare.yml", host, published.lock()).changed == []


@pytest.mark.parametrize("there", [NEWER_DRIVER, DRIVER])
def test_packages_that_are_there_already_are_brought_to_the_lock(
    there: str, machine: Machine, play: Play, published: Archive
) -> None:
    """Installed by hand before any run: newer than locked, and equal."""
    source = f"deb [trusted=yes] {published.uri} ./\n"
    machine.write("etc/apt/sources.list.d/by-hand.list", source)
    machine.run("apt-get", "-q", "update")
    machine.apt(f"nvidia-utils-580={there}-1ubuntu1", f"libnvidia-compute-580={there}-1ubuntu1")
    refused = play("prepare.yml", machine, published.lock())
    assert "by-hand.list also names" in refused.message
    machine.run("rm", "/etc/apt/sources.list.d/by-hand.list")
    ran = play("prepare.yml", machine, published.lock())
    assert ran.status == 0, ran.message
    assert ("nvidia-utils-580" in ran.changes["installed"]) is (there != DRIVER)
    assert machine.packages["nvidia-utils-580"] == f"{DRIVER}-1ubuntu1"


def test_neither_an_upgrade_by_hand_nor_an_unattended_one_moves_anything(
    host: Machine, published: Archive
) -> None:
    """Preferences alone keep the versions, holds alone keep them, and the blacklist names them."""
    nothing = "0 upgraded, 0 newly installed, 0 to remove"
    assert nothing in host.run("apt-get", "--simulate", "dist-upgrade")
    assert nothing in host.run("apt-get", "--simulate", "--ignore-hold", "dist-upgrade")
    host.run("mv", "/etc/apt/preferences.d/00-tokenworks", "/root/")
    assert nothing in host.run("apt-get", "--simulate", "dist-upgrade").replace("\n", " ")
    assert nothing not in host.run("apt-get", "--simulate", "--ignore-hold", "dist-upgrade")
    said = host.run("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist")
    assert {"nvidia-", "libnvidia-", "containerd.io$"} <= set(said.split('"'))


def test_an_upgrade_behind_our_back_is_seen_told_and_taken_back(
    host: Machine, play: Play, published: Archive
) -> None:
    newer = f"{NEWER_DRIVER}-1ubuntu1"
    host.apt(f"libnvidia-compute-580={newer}", f"nvidia-utils-580={newer}")
    verified = play("verify.yml", host, published.lock())
    assert verified.status != 0
    assert f"libnvidia-compute-580 is at {newer}, locked at {DRIVER}-1ubuntu1" in verified.message
    assert host.run("nvidia-smi", "-L", status=18) == (
        "Failed to initialize NVML: Driver/library version mismatch\n"
    )
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert "reboot" not in ran.changes["steps"]
    assert "restart_gpu_services" in ran.changes["steps"]
    assert host.packages["libnvidia-compute-580"] == f"{DRIVER}-1ubuntu1"


def test_a_toolkit_of_which_one_package_was_left_behind_is_made_whole(
    host: Machine, play: Play, published: Archive
) -> None:
    names = [name for name in host.packages if "nvidia-container" in name]
    assert len(names) == 4
    host.apt(*(f"{name}={debs.OLD_TOOLKIT}-1" for name in names))
    newer = f"libnvidia-container1_{debs.TOOLKIT}-1_amd64.deb"
    shutil.copy(published.folder / "pool" / newer, host.root / "root")
    host.run("dpkg", "--install", f"/root/{newer}")
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    versions = {v for n, v in host.packages.items() if "nvidia-container" in n}
    assert versions == {f"{debs.TOOLKIT}-1"}
    assert ran.changes["change_class"] == "toolkit"
    assert "reboot" not in ran.changes["steps"]


def test_a_newer_kernel_that_somebody_installs_does_not_boot(
    host: Machine, play: Play, published: Archive
) -> None:
    """Without headers it would have no driver; it is there and harmless."""
    host.apt(f"linux-image-{NEWER_KERNEL}=6.1.164-1")
    host.run("/usr/local/lib/stand-in/boot")
    assert host.text("proc/sys/kernel/osrelease") == f"{KERNEL}\n"
    assert f"  {DRIVER}  " in host.text("proc/driver/nvidia/version")
    assert play("prepare.yml", host, published.lock()).changed == []


def test_a_newer_kernel_that_runs_already_is_left_by_a_reboot(
    machine: Machine, play: Play, published: Archive
) -> None:
    machine.write(f"boot/vmlinuz-{NEWER_KERNEL}", "")
    machine.write("proc/sys/kernel/osrelease", f"{NEWER_KERNEL}\n")
    ran = play("prepare.yml", machine, published.lock())
    assert ran.status == 0, ran.message
    assert ran.changes["change_class"] == "kernel"
    assert machine.text("proc/sys/kernel/osrelease") == f"{KERNEL}\n"


def test_a_run_that_was_cut_off_while_packages_were_unpacked_is_finished(
    host: Machine, play: Play, published: Archive
) -> None:
    deb = f"libnvidia-compute-580_{NEWER_DRIVER}-1ubuntu1_amd64.deb"
    host.write(f"root/{deb}", "")
    (host.root / "root" / deb).write_bytes((published.folder / "pool" / deb).read_bytes())
    host.run("dpkg", "--force-depends", "--unpack", f"/root/{deb}")
    status = host.text("var/lib/dpkg/status")
    broken = status.replace(
        "Package: nvidia-utils-580\nStatus: hold ok installed",
        "Package: nvidia-utils-580\nStatus: install reinstreq half-installed",
    )
    assert broken != status
    host.write("var/lib/dpkg/status", broken)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert {"libnvidia-compute-580", "nvidia-utils-580"} <= set(ran.changes["half_installed"])
    assert host.run("dpkg", "--audit") == ""
    assert host.packages["nvidia-utils-580"] == f"{DRIVER}-1ubuntu1"


def test_steps_that_a_cut_off_run_owed_are_taken_by_the_next(
    host: Machine, play: Play, published: Archive
) -> None:
    boot_id = host.text("proc/sys/kernel/random/boot_id").strip()
    note = {"steps": ["restart_containerd"], "boot_id": boot_id}
    host.write("var/lib/tokenworks/owed.json", json.dumps(note))
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert host.log[before:] == ["systemctl restart containerd"]
    assert play("prepare.yml", host, published.lock()).changes["steps"] == []


def test_a_changed_containerd_file_restarts_containerd_and_nothing_else(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert ran.changes["change_class"] == "toolkit"
    assert host.log[before:] == ["systemctl restart containerd"]


def test_a_root_file_of_the_clusters_own_is_extended_at_its_schema(
    host: Machine, play: Play, published: Archive
) -> None:
    settings = host.settings.model_copy(update={"containerd_root": "external"})
    owned = 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
    host.write("etc/containerd/config.toml", owned)
    external = Machine(root=host.root, settings=settings)
    ran = play("prepare.yml", external, published.lock())
    assert ran.status == 0, ran.message
    assert host.text("etc/containerd/config.toml") == owned
    assert "\nversion = 2\n" in host.text("etc/containerd/conf.d/50-tokenworks.toml")


def test_a_host_with_nvswitches_gets_the_fabric_manager_and_it_runs(
    host: Machine, play: Play, published: Archive
) -> None:
    world.add_nvswitch(host)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert host.packages["nvidia-fabricmanager"] == f"{DRIVER}-1ubuntu1"
    assert (host.root / "var/lib/stand-in/active/nvidia-fabricmanager.service").exists()


def test_a_change_of_mig_writes_the_cdi_specification_anew_within_a_minute(
    host: Machine, play: Play, published: Archive
) -> None:
    """systemd's part, the timer, is for a machine that boots; here its service's line is run."""
    unit = host.text("etc/systemd/system/tokenworks-cdi.service")
    line = re.search(r"^ExecStart=/bin/sh -c '(.+)'$", unit, re.MULTILINE)
    assert line is not None
    assert "OnUnitInactiveSec=60" in host.text("etc/systemd/system/tokenworks-cdi.timer")
    assert (host.root / "var/lib/stand-in/enabled/tokenworks-cdi.timer").exists()
    host.run("sh", "-c", line[1])
    before = len(host.log)
    host.run("sh", "-c", line[1])
    assert host.log[before:] == []
    host.write("var/lib/stand-in/mig.json", '{"1": 2}')
    stale = play("verify.yml", host, published.lock())
    assert "runtime/cdi failed: {'missing': ['1:0', '1:1'], 'gone': []}" in stale.message
    host.run("sh", "-c", line[1])
    assert host.log[before:] == ["systemctl restart nvidia-cdi-refresh.service"]
    assert play("verify.yml", host, published.lock()).status == 0


def test_a_unit_that_a_host_does_not_have_yet_runs_without_a_reboot(
    host: Machine, play: Play, published: Archive
) -> None:
    timer = "tokenworks-cdi.timer"
    for place in ("etc/systemd/system", "var/lib/stand-in/enabled", "var/lib/stand-in/active"):
        (host.root / place / timer).unlink()
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 0, ran.message
    assert ran.changes["change_class"] == "toolkit"
    assert host.log[before:] == [
        "systemctl daemon-reload",
        f"systemctl --no-reload enable {timer}",
        f"systemctl start {timer}",
    ]


def two_that_differ(layers: object, as_locked: str) -> dict[str, Machine]:
    """Hosts of two failure domains on which containerd must restart."""
    assert callable(layers)
    hosts = {name: Machine(root=layers(as_locked)) for name in ("gpu-1", "gpu-2")}
    for machine in hosts.values():
        machine.write("etc/containerd/conf.d/50-tokenworks.toml", "version = 3\n")
    return hosts


def test_a_host_that_is_lost_amid_its_turn_keeps_every_later_failure_domain_from_changing(
    layers: object, as_locked: str, published: Archive, tmp_path: Path
) -> None:
    hosts = two_that_differ(layers, as_locked)
    hosts["gpu-1"].write("var/lib/stand-in/faults.json", '{"lost": 1}')
    before, log = hosts["gpu-2"].snapshot(), hosts["gpu-2"].log
    ran = world.play("prepare.yml", hosts, published.lock(), published, tmp_path / "run")
    assert ran.status == 4
    assert hosts["gpu-1"].log[-1] == "systemctl restart containerd"
    assert (hosts["gpu-2"].snapshot(), hosts["gpu-2"].log) == (before, log)
    assert [task for task in ran.tasks if task.startswith("gpu-2: ")] == [
        "gpu-2: Plan what differs from the lock",
        "gpu-2: Group the hosts that change by their failure domain",
    ]


def test_one_failure_domain_at_a_time_and_none_after_one_that_failed(
    layers: object, as_locked: str, published: Archive, tmp_path: Path
) -> None:
    hosts = two_that_differ(layers, as_locked)
    hosts["gpu-1"].write("var/lib/stand-in/faults.json", '{"fallen": 1}')
    logs = {name: len(machine.log) for name, machine in hosts.items()}
    ran = world.play("prepare.yml", hosts, published.lock(), published, tmp_path / "run")
    assert ran.status == 2
    assert "inventory/gpus failed" in ran.message
    assert len(hosts["gpu-1"].log) == logs["gpu-1"] + 1
    assert len(hosts["gpu-2"].log) == logs["gpu-2"]
