"""What speaks against touching a host, and what is found on it afterwards: both pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.hosts.samples import DRIVER, FILES, lock, state
from tokenworks.hosts.changes import plan_changes
from tokenworks.hosts.files import containerd_options, upgrade_blacklist
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.preflight import gpu_work, refusals
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState
from tokenworks.hosts.verification import findings

ROOT = Path(__file__).resolve().parents[2]
CONTAINERD: dict[str, Any] = {
    "version": "2.2.1",
    "root_present": True,
    "root_schema": 3,
    "root_imports": ['["/etc/containerd/conf.d/*.toml"]'],
    "merged": True,
    "cdi": True,
    "runtimes": {
        "runc": {"SystemdCgroup": "true"},
        "nvidia": {"SystemdCgroup": "true", "BinaryName": "/usr/bin/nvidia-container-runtime"},
    },
}
MIRROR = "https://packages.example.org/ubuntu/ noble"
GOOD: dict[str, Any] = {
    "containerd": CONTAINERD,
    "upgrade_blacklist": upgrade_blacklist(lock()),
    "cdi_specs": {"/run/cdi/nvidia.yaml": 9},
    "device_nodes": ["/dev/nvidia-uvm"],
    "libraries": [DRIVER],
    "automatic_updates": False,
    "services": {"nvidia-fabricmanager.service": "active"},
}


def refused(
    now: HostState, *, drains: bool = True, locked: HostLock | None = None, **settings: Any
) -> list[tuple[str, str]]:
    locked = locked or lock()
    plan = plan_changes(now, locked, FILES)
    found = refusals(now, locked, HostSettings(**settings), plan, drains=drains)
    return [(each.role, each.message) for each in found]


def found(**changed: Any) -> list[tuple[str, str]]:
    listed = findings(state(**GOOD | changed), lock(), HostSettings(), FILES)
    return [(each.role, each.message) for each in listed]


def only(listed: list[tuple[str, str]], role: str, words: str) -> None:
    assert [each[0] for each in listed] == [role], listed
    assert words in listed[0][1]
    assert ";" in listed[0][1], "it must say what to do"


def test_nothing_speaks_against_a_good_host_and_nothing_is_found_on_it() -> None:
    assert refused(state(**GOOD)) == []
    assert found() == []


@pytest.mark.parametrize(
    ("changed", "role", "words"),
    [
        ({"os": "debian-13"}, "base", "the host runs debian-13"),
        (
            {"apt_sources": {"/etc/apt/sources.list.d/cuda.list": [MIRROR]}},
            "base",
            "cuda.list also names https://packages.example.org/ubuntu noble",
        ),
        ({"os": "rhel-9.6"}, "base", "ansible/rhel-repositories.yml"),
        ({"os": "ol-9.5"}, "base", "only repositories and version locks are known"),
        ({"os": "rhel-10.1"}, "base", "known are ubuntu-22.04"),
        ({"architecture": "arm64"}, "base", "the host is arm64, its lock is for amd64"),
        ({"secure_boot": None}, "gpu_driver", "whether Secure Boot is on cannot be read"),
        ({"secure_boot": True}, "gpu_driver", "would reject a module built here"),
        ({"kernel_compiler": "gcc-12"}, "gpu_driver", "was built by gcc-12, locked is gcc-13"),
        (
            {"containerd": CONTAINERD | {"drop_ins": ["/etc/containerd/config.d/99-nvidia.toml"]}},
            "containerd",
            "99-nvidia.toml also configures the NVIDIA runtime",
        ),
    ],
)
def test_what_would_go_wrong_is_refused(changed: dict[str, Any], role: str, words: str) -> None:
    only(refused(state(**GOOD | changed)), role, words)


def test_another_suite_of_the_same_mirror_and_our_own_file_are_no_obstacle() -> None:
    sources = {
        "/etc/apt/sources.list": ["https://packages.example.org/ubuntu noble-updates"],
        "/etc/apt/sources.list.d/tokenworks.sources": [MIRROR],
    }
    assert refused(state(**GOOD, apt_sources=sources)) == []


def test_secure_boot_with_an_enrolled_key_or_a_signed_module_is_no_obstacle() -> None:
    assert refused(state(**GOOD, secure_boot=True, module_key_enrolled=True)) == []
    signed = [
        package.model_copy(
            update={"name": package.name.replace("nvidia-dkms", "linux-modules-nvidia")}
        )
        for package in lock().packages
    ]
    locked = lock().model_copy(update={"packages": tuple(signed)})
    assert refused(state(**GOOD, secure_boot=True), locked=locked) == []


@pytest.mark.parametrize(
    ("package", "is_built_here"),
    [
        ("nvidia-dkms-580-open", True),
        ("nvidia-kernel-open-dkms", True),
        ("nvidia-headless-no-dkms-580-server-open", False),
    ],
)
def test_only_modules_that_are_built_here_need_a_key(package: str, is_built_here: bool) -> None:
    names = {"nvidia-dkms-580-open": package}
    packages = [p.model_copy(update={"name": names.get(p.name, p.name)}) for p in lock().packages]
    locked = lock().model_copy(update={"packages": tuple(packages)})
    found = refused(state(**GOOD, secure_boot=True), locked=locked)
    assert ("would reject a module built here" in str(found)) is is_built_here


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ({"root_present": False, "root_schema": None}, "is missing; let its owner write it"),
        ({"root_schema": 1}, "too old to be extended"),
        ({"version": "2.1.0", "root_imports": []}, "does not import /etc/containerd/conf.d/*.toml"),
    ],
)
def test_a_root_file_of_somebody_elses_must_let_itself_be_extended(
    root: dict[str, Any], words: str
) -> None:
    now = state(**GOOD | {"containerd": CONTAINERD | root})
    only(refused(now, containerd_root="external"), "containerd", words)
    assert refused(now) == []


def test_containerd_since_2_2_imports_the_folder_by_itself() -> None:
    now = state(**GOOD | {"containerd": CONTAINERD | {"root_imports": []}})
    assert refused(now, containerd_root="external") == []


def test_work_counts_only_where_the_run_would_stop_it_and_services_of_the_driver_never() -> None:
    users = ("python3 (7)", "nvidia-persiste (8)", "nv-fabricmanage (9)")
    old = {"loaded_driver": "570.1.1"}
    only(
        refused(state(**GOOD, gpu_users=users).model_copy(update=old), drains=False),
        "base",
        "python3 (7) does",
    )
    assert refused(state(**GOOD, gpu_users=users), drains=False) == []
    assert refused(state(**GOOD, gpu_users=users[1:]).model_copy(update=old), drains=False) == []


def test_work_that_no_drain_ends_is_refused_before_a_node_is_emptied_for_nothing() -> None:
    users, old = ("python3 (7)", "nvidia-smi (8)", "nvidia-ctk (9)"), {"loaded_driver": "570.1.1"}
    now = state(**GOOD, gpu_users=users).model_copy(update=old)
    only(refused(now, drains=True), "base", "python3 (7) does; it is of no pod")
    in_a_pod = now.model_copy(update={"gpu_users_in_pods": users[:1]})
    assert refused(in_a_pod, drains=True) == []


def test_timers_that_may_update_what_is_not_locked_may_be_on() -> None:
    now = state(**GOOD | {"automatic_updates": True})
    assert findings(now, lock(), HostSettings(automatic_updates=True), FILES) == ()


def test_work_in_pods_may_be_left_out() -> None:
    users = ("python3 (7)", "python3 (8)", "nvidia-persiste (9)", "nvidia-device-p (10)")
    now = state(gpu_users=users, gpu_users_in_pods=users[:1])
    assert gpu_work(now) == users[:2]
    assert gpu_work(now, pods=False) == users[1:2]


def test_a_toolkit_with_a_known_escape_is_refused() -> None:
    packages = [
        package.model_copy(update={"version": "1.17.7-1"})
        if package.part is Part.TOOLKIT
        else package
        for package in lock().packages
    ]
    locked = lock(toolkit_version="1.17.7").model_copy(update={"packages": tuple(packages)})
    assert any("CVE-2025-23266" in message for _, message in refused(state(**GOOD), locked=locked))


def test_storage_packages_must_be_locked() -> None:
    only(refused(state(**GOOD), storage_packages=("nfs-common",)), "storage_client", "nfs-common")


@pytest.mark.parametrize(
    ("changed", "role", "words"),
    [
        (
            {"candidates": {"nvidia-utils-580": "595.1-1"}},
            "base",
            "apt would install nvidia-utils-580 595.1-1",
        ),
        ({"automatic_updates": True}, "base", "apt's own timers may update packages"),
        ({"automatic_updates": None}, "base", "apt's own timers may update packages"),
        ({"upgrade_blacklist": None}, "base", "unattended upgrades may touch"),
        ({"upgrade_blacklist": ["nvidia-"]}, "base", "libnvidia-"),
        # A package of branch 570 that brings 580 under its name (canonical/core-base#439).
        ({"libraries": ["570.86.15"]}, "gpu_driver", "brought another driver than their names say"),
        ({"libraries": []}, "gpu_driver", "libnvidia-ml of no version is on disk"),
        ({"libraries": [DRIVER, "570.86.15"]}, "gpu_driver", f"{DRIVER}, 570.86.15 is on disk"),
        ({"services": {}}, "gpu_driver", "nvidia-fabricmanager.service is missing"),
        ({"device_nodes": []}, "gpu_driver", "/dev/nvidia-uvm is missing"),
        ({"cdi_specs": {}}, "container_toolkit", "names each of the 8 GPUs"),
        ({"cdi_specs": {"/run/cdi/nvidia.yaml": 8}}, "container_toolkit", "8 GPUs and all"),
        ({"containerd": None}, "containerd", "cannot read its configuration"),
        ({"containerd": CONTAINERD | {"merged": False}}, "containerd", "cannot read"),
        ({"containerd": CONTAINERD | {"cdi": False}}, "containerd", "enable_cdi is off"),
        ({"containerd": CONTAINERD | {"disabled_plugins": '["cri"]'}}, "containerd", "CRI plugin"),
    ],
)
def test_what_is_not_good_is_found_by_the_role_whose_business_it_is(
    changed: dict[str, Any], role: str, words: str
) -> None:
    only(found(**changed), role, words)


@pytest.mark.parametrize(("runtime", "option", "value"), containerd_options())
def test_each_option_of_containerd_is_asserted_after_merging(
    runtime: str, option: str, value: str
) -> None:
    runtimes = {name: dict(options) for name, options in CONTAINERD["runtimes"].items()}
    del runtimes[runtime][option]
    only(found(containerd=CONTAINERD | {"runtimes": runtimes}), "containerd", f"{option} = {value}")


def test_what_a_run_would_still_change_is_a_finding_of_the_whole_host() -> None:
    listed = found(loaded_driver="570.1.1")
    assert (
        "host",
        f"driver 570.1.1 is loaded, locked is {DRIVER}; run: tokenworks hosts prepare",
    ) in listed
    assert found(owed=("uncordon",)) == []


def test_the_rhel_family_is_the_one_of_the_variables() -> None:
    variables = YAML(typ="safe", pure=True).load(
        (ROOT / "ansible" / "vars" / "rhel-9.yml").read_text("utf-8")
    )
    for name in variables["rhel_family"]:
        system = f"{name}-{variables['rhel_release']}"
        only(refused(state(**GOOD | {"os": f"{system}.4"})), "base", f"the host runs {system}.4")
        only(refused(state(**GOOD | {"os": system})), "base", "rhel-repositories.yml")
