"""What the module reads of a host, against folders that stand for hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.fake_root import fake_host, host_base, host_gpu, host_state
from tokenworks.hosts.changes import _BY_BOOT, Step
from tokenworks.hosts.state import Containerd, HostState

CASES = Path(__file__).parent / "cases"


def status(*packages: tuple[str, str, str]) -> str:
    return "\n".join(
        f"Package: {name}\nStatus: {state}\nVersion: {version}\n"
        for name, state, version in packages
    )


def test_every_field_that_the_module_sends_is_one_that_the_controller_knows(tmp_path: Path) -> None:
    read = host_state.read(fake_host(tmp_path, {}))
    assert set(read) == set(HostState.model_fields)
    HostState.model_validate(read)


def test_a_folder_with_nothing_in_it_is_read_as_unknown_and_not_as_good(tmp_path: Path) -> None:
    state = HostState.model_validate(host_state.read(fake_host(tmp_path, {})))
    assert (state.boot_kernel, state.loaded_driver, state.containerd) == (None, None, None)
    assert state.upgrade_blacklist is None
    assert state.gpus == 0


def test_packages_holds_and_half_states_come_from_dpkg(tmp_path: Path) -> None:
    text = status(
        ("nvidia-utils-580", "hold ok installed", "580.1-1"),
        ("libnvidia-compute-580", "install ok unpacked", "580.1-1"),
        ("nvidia-dkms-580-open", "install reinstreq half-installed", "580.1-1"),
        ("nvidia-old", "deinstall ok config-files", "570.1-1"),
        ("bash", "install ok installed", "5"),
        ("nfs-common", "install ok installed", "2.6"),
    )
    host = fake_host(tmp_path, {"var/lib/dpkg/status": text})
    read = host_state.read(host, packages=["nfs-common"])
    assert read["packages"] == {"nvidia-utils-580": "580.1-1", "nfs-common": "2.6"}
    assert read["half_installed"] == ["libnvidia-compute-580", "nvidia-dkms-580-open"]
    assert read["held"] == ["nvidia-utils-580"]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.309.01  Tue Sep 1\n", "535.309.01"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
            "580.159.04",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  615.71  Release\n", "615.71"),
    ],
)
def test_the_loaded_driver_is_told_of_either_flavour(
    tmp_path: Path, line: str, version: str
) -> None:
    host = fake_host(tmp_path, {"proc/driver/nvidia/version": line})
    assert host_gpu.loaded_driver(host) == version
    flavour = "open" if " Open " in line else "proprietary"
    assert host_state.read(host)["loaded_modules"] == host_gpu.loaded_modules(host) == flavour


def test_without_a_driver_no_flavour_is_loaded(tmp_path: Path) -> None:
    assert host_gpu.loaded_modules(fake_host(tmp_path, {"etc/x": ""})) is None


def test_without_grub_the_link_names_the_kernel(tmp_path: Path) -> None:
    host = fake_host(tmp_path, {"boot/vmlinuz-6.1.0-41": "", "boot/vmlinuz-6.1.0-44": ""})
    assert host_base.boot_kernel(host) is None
    (tmp_path / "vmlinuz").symlink_to("boot/vmlinuz-6.1.0-41")
    assert host_base.boot_kernel(host) == "6.1.0-41"


def test_an_initial_ram_disk_older_than_its_rules_is_stale(tmp_path: Path) -> None:
    files = {
        "boot/vmlinuz-a": "",
        "boot/initrd.img-a": "",
        "boot/vmlinuz-b": "",
        "etc/modprobe.d/x.conf": "",
    }
    host = fake_host(tmp_path, files)
    os.utime(tmp_path / "etc/modprobe.d/x.conf", (100, 100))
    assert host_base.stale_initramfs(host) == ["b"]
    os.utime(tmp_path / "boot/initrd.img-a", (99, 99))
    assert host_base.stale_initramfs(host) == ["a", "b"]


def test_gpus_and_nvswitches_are_counted_by_vendor_and_class(tmp_path: Path) -> None:
    devices = {
        "0000:1b:00.0": ("0x10de", "0x030200"),
        "0000:1c:00.0": ("0x10de", "0x030000"),
        "0000:a1:00.0": ("0x10de", "0x068000"),
        "0000:00:02.0": ("0x8086", "0x030000"),
        "0000:1b:00.1": ("0x10de", "0x040300"),
    }
    files = {
        f"sys/bus/pci/devices/{address}/{name}": text + "\n"
        for address, (vendor, kind) in devices.items()
        for name, text in (("vendor", vendor), ("class", kind), ("device", "0x2330"))
    }
    read = host_state.read(fake_host(tmp_path, files))
    assert (read["gpus"], read["nvswitches"], read["gpu_ids"]) == (2, 1, ["0x2330"])


@pytest.mark.parametrize(("last", "on"), [(b"\x01", True), (b"\x00", False)])
def test_secure_boot_is_the_byte_after_the_attributes(
    tmp_path: Path, last: bytes, on: bool
) -> None:
    host = fake_host(tmp_path, {host_base.SECURE_BOOT: b"\x06\x00\x00\x00" + last})
    assert host_base.secure_boot(host) is on


def test_secure_boot_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert host_base.secure_boot(fake_host(tmp_path, {"sys/firmware/efi/x": ""})) is None
    assert host_base.secure_boot(fake_host(tmp_path / "bios", {"etc/x": ""})) is False


@pytest.mark.parametrize(
    ("said", "compiler"),
    [
        (
            "6.8.0-87-generic (b@h) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0) 13.3.0, GNU ld",
            "gcc-13",
        ),
        ("6.8.0-1008-aws (b@h) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0) 12.3.0, GNU ld", "gcc-12"),
        ("6.1.0-41-amd64 (d@d) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld", "gcc-12"),
        ("6.1 (clang version 17)", None),
    ],
)
def test_the_compiler_is_the_one_that_built_the_running_kernel(
    tmp_path: Path, said: str, compiler: str | None
) -> None:
    assert (
        host_base.compiler(fake_host(tmp_path, {"proc/version": f"Linux version {said}"}))
        == compiler
    )


def test_modules_are_told_by_kernel_and_dkms_by_what_it_installed(tmp_path: Path) -> None:
    files = {
        "lib/modules/6.8.0-87/x": "",
        "lib/modules/6.8.0-90/x": "",
        "var/lib/dkms/nvidia/580.1/6.8.0-87/x86_64/module/nvidia.ko": "",
        "var/lib/dkms/nvidia/580.1/6.8.0-90/x86_64/module/nvidia.ko": "",
        "var/lib/dkms/nvidia/570.1/source": "",
    }
    command = f"modinfo -b {tmp_path} -k 6.8.0-87 -F version nvidia"
    host = fake_host(tmp_path, files, {command: "580.1\n", "modinfo": (1, "")})
    (tmp_path / "var/lib/dkms/nvidia/kernel-6.8.0-87-x86_64").symlink_to("580.1/6.8.0-87/x86_64")
    assert host_gpu.module_versions(host) == {"6.8.0-87": "580.1"}
    assert host_gpu.dkms(host) == {
        "580.1/6.8.0-87": "installed",
        "580.1/6.8.0-90": "built",
        "570.1": "added",
    }


@pytest.mark.parametrize("folder", ["", "/nvidia/current"], ids=["Ubuntu", "Debian"])
def test_the_library_is_found_where_a_distribution_keeps_it(tmp_path: Path, folder: str) -> None:
    library = f"usr/lib/x86_64-linux-gnu{folder}/libnvidia-ml.so"
    host = fake_host(tmp_path, {f"{library}.{version}": "" for version in ("580.126.20", "1")})
    assert host_gpu.libraries(host) == ["580.126.20"]


def test_processes_that_hold_a_gpu_are_named(tmp_path: Path) -> None:
    host = fake_host(tmp_path, {"proc/41/comm": "python3\n", "proc/42/comm": "bash\n"})
    for pid, target in ((41, "/dev/nvidia0"), (42, "/dev/null")):
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(target)
    assert host_gpu.gpu_users(host) == ["python3 (41)"]


def test_a_user_of_a_gpu_is_in_a_pod_if_its_control_group_is_a_pods(tmp_path: Path) -> None:
    groups = {
        41: "0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-2.scope",
        42: "13:devices:/kubepods/burstable/pod1/2\n1:name=systemd:/kubepods/burstable/pod1/2",
        43: "0::/user.slice/user-1000.slice/session-4.scope",
    }
    host = fake_host(tmp_path, {f"proc/{pid}/cgroup": text for pid, text in groups.items()})
    users = ["a (b) (41)", "python3 (42)", "python3 (43)", "gone (44)"]
    assert host_gpu.in_pods(host, users) == users[:2]


@pytest.mark.parametrize(
    ("said", "acts"),
    [
        ('APT::Periodic::Enable "0";\n', False),
        ('APT::Periodic::Enable "1";\n', True),
        ("", True),
        ((100, ""), None),
    ],
)
def test_apts_own_timers_act_unless_they_are_switched_off(
    said: str | tuple[int, str], acts: bool | None, tmp_path: Path
) -> None:
    says = {"apt-config dump APT::Periodic::Enable": said}
    assert host_base.automatic_updates(fake_host(tmp_path, {}, says)) is acts


@pytest.mark.parametrize("version", ["1.6.20", "2.2.9"])
def test_merged_containerd_settings_are_read_from_real_dumps(tmp_path: Path, version: str) -> None:
    dump = (CASES / f"containerd-{version}.toml").read_text()
    says = {
        "containerd --version": f"containerd github.com/containerd/containerd {version} x",
        "containerd config dump": dump,
    }
    read = host_gpu.containerd(
        fake_host(tmp_path, {"etc/containerd/config.toml": "version = 2\n"}, says)
    )
    containerd = Containerd.model_validate(read)
    assert containerd.version == version
    assert containerd.root_schema == 2
    assert containerd.runtimes["nvidia"] == {
        "BinaryName": "/usr/bin/nvidia-container-runtime",
        "SystemdCgroup": "true",
    }
    assert containerd.runtimes["runc"]["SystemdCgroup"] == "true"
    assert "/etc/containerd/conf.d/" in containerd.imports
    assert containerd.cdi is (version != "1.6.20")


def test_a_root_file_without_version_is_of_schema_one(tmp_path: Path) -> None:
    says: dict[str, str | tuple[int, str]] = {
        "containerd --version": "containerd x 1.7.29 y",
        "containerd config dump": (1, "bad"),
    }
    files = {"etc/containerd/config.toml": 'imports = ["/etc/containerd/conf.d/*.toml"]\n'}
    read = host_gpu.containerd(fake_host(tmp_path, files, says))
    assert (read["root_schema"], read["merged"]) == (1, False)
    assert read["root_imports"] == ['["/etc/containerd/conf.d/*.toml"]']


def test_what_apt_would_install_is_read_by_package(tmp_path: Path) -> None:
    said = "a:\n  Installed: (none)\n  Candidate: 1.2-3\nb:\n  Installed: 1\n  Candidate: (none)\n"
    host = fake_host(tmp_path, {}, {"apt-cache": said})
    assert host_base.candidates(host, ["a", "b"]) == {"a": "1.2-3"}


def test_a_file_that_others_may_write_is_not_the_file_that_was_written(tmp_path: Path) -> None:
    host = fake_host(tmp_path, {"etc/x": "text", "etc/y": "text"})
    (tmp_path / "etc/x").chmod(0o666)
    (tmp_path / "etc/z").symlink_to("y")
    if os.geteuid() == 0:
        assert len(host_base.digest(host, "/etc/y")) == 64
    assert host_base.digest(host, "/etc/x") == "others than root may write it"
    assert host_base.digest(host, "/etc/z") == "no regular file"
    assert host_base.digest(host, "/etc/missing") is None


def test_repositories_are_read_from_both_kinds_of_file(tmp_path: Path) -> None:
    files = {
        "etc/apt/sources.list": "# deb http://old x\ndeb http://a stable main\ndeb-src http://a\n",
        "etc/apt/sources.list.d/b.list": "deb [arch=amd64 signed-by=/k] https://b/x ./\n",
        "etc/apt/sources.list.d/c.sources": "Types: deb\nURIs: http://c\nSuites: one two\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://d\nSuites: s\n",
        "etc/apt/sources.list.d/e.list.save": "deb http://e s m\n",
    }
    assert host_base.apt_sources(fake_host(tmp_path, files)) == {
        "/etc/apt/sources.list": ["http://a stable"],
        "/etc/apt/sources.list.d/b.list": ["https://b/x ./"],
        "/etc/apt/sources.list.d/c.sources": ["http://c one", "http://c two"],
    }


def test_who_holds_the_package_manager_is_told_by_name(tmp_path: Path) -> None:
    host = fake_host(tmp_path, {"var/lib/dpkg/lock-frontend": "", "var/lib/dpkg/lock": ""})
    assert host_base.lock_holder(host) is None
    script = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print(1, flush=True); time.sleep(60)"
    )
    lock = str(tmp_path / "var/lib/dpkg/lock-frontend")
    holder = subprocess.Popen([sys.executable, "-c", script, lock], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        assert host_base.lock_holder(host) == f"process ({holder.pid})"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_boot_settles_what_it_does_by_itself_and_nothing_else(tmp_path: Path) -> None:
    steps = ["initramfs", "reboot", "restart_containerd", "uncordon"]
    files = {
        host_base.OWED: json.dumps({"steps": steps, "boot_id": "a"}),
        "proc/sys/kernel/random/boot_id": "a\n",
    }
    host = fake_host(tmp_path, files)
    assert host_base.owed(host) == ["initramfs", "reboot", "restart_containerd", "uncordon"]
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b\n")
    assert host_base.owed(host) == ["initramfs", "uncordon"]


def test_host_and_controller_agree_on_what_a_boot_does() -> None:
    assert set(host_base.BY_BOOT) == {step.value for step in _BY_BOOT | {Step.REBOOT}}


@pytest.mark.parametrize("folder", ["ansible/library", "ansible/module_utils", "templates/hosts"])
def test_what_runs_on_hosts_imports_the_standard_library_only(folder: str) -> None:
    import ast

    root = Path(__file__).resolve().parents[2] / folder
    own = {"ansible", "host_base", "host_gpu", "host_state", "host_checks", "host_gate"}
    for file in root.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 8))
        names = {
            alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {
            (node.module or "").split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
        }
        assert names <= own | set(sys.stdlib_module_names), file
