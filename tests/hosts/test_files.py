"""The managed files of a host, as text."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from debian.deb822 import Deb822

from tests.hosts.repository import Signer
from tests.hosts.samples import lock, state
from tokenworks.hosts.changes import Step
from tokenworks.hosts.files import HostFile, host_files, managed_paths, node_labels
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import Containerd
from tokenworks.templating import TEMPLATES

LIBRARY = "/usr/local/lib/tokenworks/"


@pytest.fixture
def locked(signer: Signer) -> HostLock:
    sample = lock()
    repository = sample.repositories[0].model_copy(update={"key_fingerprint": signer.fingerprint})
    return sample.model_copy(update={"repositories": (repository,)})


@pytest.fixture
def keys(signer: Signer) -> dict[str, str]:
    return {"mirror.asc": signer.armoured.decode()}


def made(locked: HostLock, keys: dict[str, str], **settings: Any) -> dict[str, HostFile]:
    files = host_files(locked, HostSettings(**settings), keys)
    return {file.path: file for file in files}


def external(locked: HostLock, keys: dict[str, str], schema: int) -> str:
    containerd = Containerd(version="2.3.0", root_present=True, root_schema=schema, merged=True)
    now = state(containerd=containerd.model_dump())
    files = host_files(locked, HostSettings(containerd_root="external"), keys, now)
    found = {file.path: file.text for file in files}
    assert "/etc/containerd/config.toml" not in found
    return found["/etc/containerd/conf.d/50-tokenworks.toml"]


def test_every_template_of_hosts_is_used(locked: HostLock, keys: dict[str, str]) -> None:
    source = (TEMPLATES.parent / "tokenworks" / "hosts" / "files.py").read_text()
    unused = [
        path.name
        for path in (TEMPLATES / "hosts").iterdir()
        if path.is_file() and path.name not in source
    ]
    assert unused == []


def test_paths_are_known_without_a_host(locked: HostLock, keys: dict[str, str]) -> None:
    assert set(managed_paths(locked, HostSettings(), keys)) == set(made(locked, keys))


def test_sources_name_the_key_by_which_each_is_trusted(
    locked: HostLock, keys: dict[str, str]
) -> None:
    files = made(locked, keys)
    text = files["/etc/apt/sources.list.d/tokenworks.sources"].text
    (source,) = Deb822.iter_paragraphs(text.encode())
    assert source["Signed-By"] == "/etc/apt/keyrings/tokenworks-mirror.asc"
    assert source["Signed-By"] in files
    assert (source["URIs"], source["Suites"]) == (locked.repositories[0].uri, "noble")
    assert (source["Components"], source["Architectures"]) == ("main", "amd64")


def test_each_locked_version_wins_and_every_other_of_its_kind_is_fenced_off(
    locked: HostLock, keys: dict[str, str]
) -> None:
    text = made(locked, keys)["/etc/apt/preferences.d/00-tokenworks"].text
    *pinned, _beside, fence = Deb822.iter_paragraphs(text.encode())
    assert {p["Package"]: p["Pin"] for p in pinned} == {
        name: f"version {version}" for name, version in locked.versions.items()
    }
    assert {p["Pin-Priority"] for p in pinned} == {"1001"}
    assert (fence["Pin"], fence["Pin-Priority"]) == ("version *", "-1")
    assert "/^(lib)?nvidia-/" in fence["Package"].split()


def test_the_drop_in_has_the_schema_of_the_root_and_only_what_belongs_there(
    locked: HostLock, keys: dict[str, str]
) -> None:
    files = made(locked, keys)
    root = tomllib.loads(files["/etc/containerd/config.toml"].text)
    drop_in = tomllib.loads(files["/etc/containerd/conf.d/50-tokenworks.toml"].text)
    assert root == {"version": 3, "imports": ["/etc/containerd/conf.d/*.toml"]}
    assert drop_in["version"] == 3
    (plugin,) = drop_in["plugins"].values()
    assert set(plugin) == {"enable_cdi", "cdi_spec_dirs", "containerd"}
    assert set(plugin["containerd"]["runtimes"]) == {"runc", "nvidia"}
    assert plugin["containerd"]["runtimes"]["nvidia"]["options"] == {
        "BinaryName": "/usr/bin/nvidia-container-runtime",
        "SystemdCgroup": True,
    }


@pytest.mark.parametrize(
    ("schema", "written", "plugin"),
    [
        (2, 2, "io.containerd.grpc.v1.cri"),
        (3, 3, "io.containerd.cri.v1.runtime"),
        (4, 3, "io.containerd.cri.v1.runtime"),
    ],
)
def test_a_root_of_somebody_elses_is_never_overtaken(
    schema: int, written: int, plugin: str, locked: HostLock, keys: dict[str, str]
) -> None:
    drop_in = tomllib.loads(external(locked, keys, schema))
    assert drop_in["version"] == written
    assert list(drop_in["plugins"]) == [plugin]


def test_containerd_before_2_0_gets_schema_two(locked: HostLock, keys: dict[str, str]) -> None:
    packages = [
        package.model_copy(update={"version": "1.7.29-1"})
        if "containerd" in package.name
        else package
        for package in locked.packages
    ]
    older = locked.model_copy(update={"packages": tuple(packages)})
    assert "version = 2\n" in made(older, keys)["/etc/containerd/config.toml"].text


def test_apt_sleeps_unless_it_may_update_and_uses_the_proxy_that_is_named(
    locked: HostLock, keys: dict[str, str]
) -> None:
    path = "/etc/apt/apt.conf.d/99tokenworks"
    plain = made(locked, keys)[path].text
    assert 'APT::Periodic::Enable "0";' in plain
    assert "Proxy" not in plain
    asked = made(locked, keys, automatic_updates=True, apt_proxy="http://proxy.example:3128")[path]
    assert 'APT::Periodic::Enable "1";' in asked.text
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in asked.text


def test_files_call_for_what_makes_them_count(locked: HostLock, keys: dict[str, str]) -> None:
    then = {path: file.then for path, file in made(locked, keys).items() if file.then}
    assert then == {
        "/etc/modprobe.d/tokenworks-gpu.conf": {Step.INITRAMFS},
        "/etc/default/grub.d/50-tokenworks-kernel.cfg": {Step.BOOT_LOADER},
        "/etc/containerd/config.toml": {Step.RESTART_CONTAINERD},
        "/etc/containerd/conf.d/50-tokenworks.toml": {Step.RESTART_CONTAINERD},
        "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env": {Step.REFRESH_CDI},
        "/etc/systemd/system/tokenworks-cdi.service": {Step.RELOAD_UNITS},
        "/etc/systemd/system/tokenworks-cdi.timer": {Step.RELOAD_UNITS},
        "/etc/systemd/system/tokenworks-gpu-devices.service": {Step.RELOAD_UNITS},
        "/etc/systemd/system/tokenworks-gate.service": {Step.RELOAD_UNITS},
        "/etc/systemd/system/kubelet.service.d/50-tokenworks-gate.conf": {Step.RELOAD_UNITS},
    }


def test_the_gate_is_told_everything_as_data(locked: HostLock, keys: dict[str, str]) -> None:
    files = made(locked, keys, expected_gpus=8, gate={"dcgm_level": 2})
    expect = json.loads(files["/etc/tokenworks/gate.json"].text)
    assert (expect["driver"], expect["expected_gpus"]) == (locked.driver.version, 8)
    assert expect["gate"]["dcgm_level"] == 2
    assert set(expect["gate"]) == {
        "harmless_xids",
        "pcie_full_width",
        "pcie_min_generation",
        "nvlinks_per_gpu",
        "nvlink_min_gb_per_second",
        "acs_off",
        "max_uncorrected_ecc",
        "dcgm_level",
        "nccl_test",
        "nccl_min_gb_per_second",
        "container_image",
    }
    assert "nvidia-fabricmanager-580" in expect["fabric_packages"]


def test_the_gate_starts_after_everything_that_it_looks_at(
    locked: HostLock, keys: dict[str, str]
) -> None:
    files = made(locked, keys)
    gate = files["/etc/systemd/system/tokenworks-gate.service"].text
    after = re.search(r"^After=(.*)$", gate, re.MULTILINE)
    assert after is not None
    assert set(after[1].split()) == {
        "containerd.service",
        "nvidia-persistenced.service",
        "nvidia-fabricmanager.service",
        "nvidia-cdi-refresh.service",
        "tokenworks-gpu-devices.service",
    }
    devices = files["/etc/systemd/system/tokenworks-gpu-devices.service"].text
    assert "After=systemd-modules-load.service nvidia-mig-manager.service" in devices
    assert "Before=nvidia-cdi-refresh.service kubelet.service" in devices


def test_another_kubelet_waits_for_the_gate_when_it_is_named(
    locked: HostLock, keys: dict[str, str]
) -> None:
    files = made(locked, keys, kubelet_unit="k3s.service")
    assert "/etc/systemd/system/k3s.service.d/50-tokenworks-gate.conf" in files
    assert "Before=k3s.service" in files["/etc/systemd/system/tokenworks-gate.service"].text


def test_labels_carry_driver_and_toolkit(locked: HostLock, keys: dict[str, str]) -> None:
    text = made(locked, keys)["/etc/tokenworks/node-labels"].text
    assert text == "".join(f"{name}={value}\n" for name, value in node_labels(locked).items())
    assert "tokenworks.dev/driver=580.159.04\n" in text


def test_the_programs_of_the_gate_are_the_ones_that_ansible_runs(
    locked: HostLock, keys: dict[str, str]
) -> None:
    root = Path(TEMPLATES).parent
    files = made(locked, keys)
    sources = {
        "host_base.py": root / "ansible" / "module_utils",
        "host_gpu.py": root / "ansible" / "module_utils",
        "host_state.py": root / "ansible" / "library",
        "host_checks.py": TEMPLATES / "hosts",
        "host_gate.py": TEMPLATES / "hosts",
    }
    shipped = {path: file.text for path, file in files.items() if path.startswith(LIBRARY)}
    assert shipped == {
        LIBRARY + name: (folder / name).read_text("utf-8") for name, folder in sources.items()
    }


def test_every_module_that_the_gate_imports_lies_beside_it(
    locked: HostLock, keys: dict[str, str]
) -> None:
    files = made(locked, keys)
    shipped = {path.removeprefix(LIBRARY).removesuffix(".py"): f.text for path, f in files.items()}
    for name, text in shipped.items():
        if name.startswith("host_"):
            wanted = re.findall(r"^\s*(?:import|from) (host_\w+)", text, re.MULTILINE)
            assert set(wanted) <= set(shipped), name


def test_file_systems_that_are_asked_for_are_loaded_at_each_boot(
    locked: HostLock, keys: dict[str, str]
) -> None:
    path = "/etc/modules-load.d/tokenworks-gpu.conf"
    plain = made(locked, keys)[path].text
    assert [line for line in plain.splitlines() if line[0] != "#"] == ["nvidia", "nvidia-uvm"]
    asked = made(locked, keys, storage_modules=["nfs", "lustre"])[path].text
    wanted = ["nvidia", "nvidia-uvm", "nfs", "lustre"]
    assert [line for line in asked.splitlines() if line[0] != "#"] == wanted


def test_the_entry_that_boots_lies_below_a_submenu_whatever_others_say(
    locked: HostLock, keys: dict[str, str]
) -> None:
    text = made(locked, keys)["/etc/default/grub.d/50-tokenworks-kernel.cfg"].text
    script = f'GRUB_DISABLE_SUBMENU=y\n{text}\necho "$GRUB_DISABLE_SUBMENU/$GRUB_DEFAULT"'
    said = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    path = f"Advanced options for Ubuntu>Ubuntu, with Linux {locked.kernel}"
    assert said.stdout == f"/{path}\n"


def test_what_is_no_part_of_the_driver_is_not_fenced_off(
    locked: HostLock, keys: dict[str, str]
) -> None:
    text = made(locked, keys)["/etc/apt/preferences.d/00-tokenworks"].text
    records = list(Deb822.iter_paragraphs(text.encode()))[len(locked.packages) :]
    for name, priority in {
        "nvidia-mig-manager": "500",
        "nvidia-gds-12-8": "500",
        "nvidia-utils-615": "-1",
        "nvidia-fsck": "-1",
    }.items():
        first = next(r for r in records if fits(r["Package"], name))
        assert first["Pin-Priority"] == priority, name


def fits(packages: str, name: str) -> bool:
    """Whether a record of preferences is about a package, as apt_preferences(5) has it."""
    return any(
        re.search(word.strip("/"), name) is not None if word.startswith("/") else word == name
        for word in packages.split()
    )
