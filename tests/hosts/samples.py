"""A lock and the host that it describes, for tests that change one thing each.

Hashes and fingerprints are made up: nothing is fetched by them.
"""

from __future__ import annotations

from typing import Any, Final

from tokenworks.hosts.changes import ManagedFile, Step
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.state import HostState

KERNEL: Final = "6.8.0-87-generic"
DRIVER: Final = "580.159.04"
TOOLKIT: Final = "1.20.0"

_VERSIONS: Final[dict[str, tuple[str, str]]] = {
    "linux-image-6.8.0-87-generic": ("6.8.0-87.88", "kernel"),
    "linux-headers-6.8.0-87-generic": ("6.8.0-87.88", "headers"),
    "gcc-13": ("13.3.0-6ubuntu2", "compiler"),
    "libnvidia-compute-580": (f"{DRIVER}-1ubuntu1", "driver"),
    "nvidia-dkms-580-open": (f"{DRIVER}-1ubuntu1", "driver"),
    "nvidia-utils-580": (f"{DRIVER}-1ubuntu1", "driver"),
    "nvidia-fabricmanager-580": (f"{DRIVER}-1", "fabric_manager"),
    "libnvidia-container1": (f"{TOOLKIT}-1", "toolkit"),
    "libnvidia-container-tools": (f"{TOOLKIT}-1", "toolkit"),
    "nvidia-container-toolkit": (f"{TOOLKIT}-1", "toolkit"),
    "nvidia-container-toolkit-base": (f"{TOOLKIT}-1", "toolkit"),
    "containerd.io": ("2.2.1-1", "containerd"),
}

UNITS: Final = (
    "tokenworks-cdi.timer",
    "tokenworks-gate.service",
    "tokenworks-gpu-devices.service",
    "nvidia-cdi-refresh.path",
    "nvidia-fabricmanager.service",
)
FILES: Final = (
    ManagedFile(path="/etc/apt/preferences.d/tokenworks", sha256="1" * 64),
    ManagedFile(
        path="/etc/containerd/conf.d/50-tokenworks.toml",
        sha256="2" * 64,
        then=frozenset({Step.RESTART_CONTAINERD}),
    ),
    ManagedFile(
        path="/etc/modprobe.d/tokenworks-nouveau.conf",
        sha256="3" * 64,
        then=frozenset({Step.INITRAMFS}),
    ),
)


def lock(**changed: Any) -> HostLock:
    """Return the lock, with fields replaced."""
    packages = [
        {"name": name, "version": version, "sha256": "a" * 64, "part": part, "repository": "mirror"}
        for name, (version, part) in _VERSIONS.items()
    ]
    repository = {
        "name": "mirror",
        "uri": "https://packages.example.org/ubuntu",
        "suite": "noble",
        "components": ["main"],
        "key_file": "mirror.asc",
        "key_fingerprint": "B" * 40,
    }
    fields: dict[str, Any] = {
        "os": "ubuntu-24.04",
        "architecture": "amd64",
        "kernel": KERNEL,
        "driver": {"version": DRIVER, "modules": "open", "archive": "cuda"},
        "toolkit_version": TOOLKIT,
        "repositories": [repository],
        "packages": packages,
    }
    return HostLock.model_validate(fields | changed)


def state(**changed: Any) -> HostState:
    """Return a host with eight GPUs and four NVSwitches that is as locked, fields replaced."""
    versions = {name: version for name, (version, _) in _VERSIONS.items()}
    fields: dict[str, Any] = {
        "os": "ubuntu-24.04",
        "architecture": "amd64",
        "running_kernel": KERNEL,
        "boot_kernel": KERNEL,
        "packages": versions,
        "held": set(versions),
        "files": {file.path: file.sha256 for file in FILES},
        "enabled": dict.fromkeys(UNITS, "enabled"),
        "loaded_driver": DRIVER,
        "nouveau_loaded": False,
        "secure_boot": False,
        "module_versions": {KERNEL: DRIVER},
        "gpus": 8,
        "nvswitches": 4,
    }
    return HostState.model_validate(fields | changed)
