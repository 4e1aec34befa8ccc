"""The managed files of a host: their text, and what has to follow when one changes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.hosts.changes import ManagedFile, Step
from tokenworks.hosts.keys import check_keys
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.names import BESIDE_DRIVER
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState
from tokenworks.templating import TEMPLATES, render

_ANSIBLE: Final = TEMPLATES.parent / "ansible"
SOURCES: Final = "/etc/apt/sources.list.d/tokenworks.sources"
CONTAINERD_ROOT: Final = "/etc/containerd/config.toml"
CDI_SPEC: Final = "/var/run/cdi/nvidia.yaml"
GATE_TIMEOUT_SECONDS: Final = 1800
"""Room for `dcgmi diag -r 3`, which takes about a quarter of an hour (DCGM's documentation)."""

CDI_PERIOD_SECONDS: Final = 60
CDI_TIMEOUT_SECONDS: Final = 120
"""For nvidia-smi, which hangs where a GPU does."""

BLACKLIST: Final = ("nvidia-", "libnvidia-", "cuda-", "linux-(image|headers|modules)")
FENCED: Final = (
    "/^(lib)?nvidia-/",
    "/^libnv(sdm|optix)/",
    "/^cuda-(drivers|compat)/",
    "nvlsm",
    "/^linux-(image|headers|modules|objects|signatures)-/",
)
NOT_OURS: Final = ("nouveau", "nova_core", "nova_drm")
"""Drivers of the kernel itself that would take the GPUs; nova comes after nouveau (Linux 6.15)."""

_LIBRARY: Final = "/usr/local/lib/tokenworks"
_PROGRAMS: Final = (
    _ANSIBLE / "module_utils" / "host_base.py",
    _ANSIBLE / "module_utils" / "host_gpu.py",
    _ANSIBLE / "library" / "host_state.py",
    TEMPLATES / "hosts" / "host_checks.py",
    TEMPLATES / "hosts" / "host_gate.py",
)
"""The gate: it reads a host by the very code that Ansible reads it by."""
_UNITS: Final = "/etc/systemd/system"
_TITLES: Final = {"ubuntu": "Ubuntu", "debian": "Debian GNU/Linux"}
_RUNTIMES: Final = (
    {"name": "runc", "binary": ""},
    {"name": "nvidia", "binary": "/usr/bin/nvidia-container-runtime"},
)
# https://github.com/containerd/containerd/blob/main/docs/cri/config.md: 3 since containerd 2.0.
_CRI: Final = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


@dataclass(frozen=True, kw_only=True)
class HostFile:
    """One file as it must be on a host, owned by root; ``then`` are the steps that it calls for."""

    path: str
    text: str
    mode: str = "0644"
    then: frozenset[Step] = frozenset()

    @property
    def managed(self) -> ManagedFile:
        """What a plan has to know of it."""
        sha256 = hashlib.sha256(self.text.encode()).hexdigest()
        return ManagedFile(path=self.path, sha256=sha256, then=self.then)


def host_files(
    lock: HostLock, settings: HostSettings, keys: Mapping[str, str], state: HostState | None = None
) -> tuple[HostFile, ...]:
    """Return every managed file of a host, in the order in which they are written.

    ``keys`` is armoured text by file name and is compared with the lock's fingerprints first.
    ``state`` tells the schema of a containerd root file that somebody else owns; without it only
    the paths are certain. Raises ``ConfigError`` for keys that are not those of the lock.
    """
    check_keys(lock, keys)
    return (
        *_apt_files(lock, settings, keys),
        *_boot_files(lock, settings),
        *_container_files(lock, settings, state),
        *_gate_files(lock, settings),
    )


def managed_paths(
    lock: HostLock, settings: HostSettings, keys: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the paths of the managed files, which the host's state has to be read for."""
    return tuple(file.path for file in host_files(lock, settings, keys))


def node_labels(lock: HostLock) -> dict[str, str]:
    """Return the labels that a prepared node carries."""
    return {
        "tokenworks.dev/driver": lock.driver.version,
        "tokenworks.dev/driver-modules": lock.driver.modules,
        "tokenworks.dev/container-toolkit": lock.toolkit_version,
    }


def containerd_schema(lock: HostLock, settings: HostSettings, state: HostState | None) -> int:
    """Return the schema version of containerd's files: the root file's own, or ours.

    A drop-in above its root is refused (containerd#12891); 3 is the highest that is written here,
    which every containerd since 2.0 reads.
    """
    known = state.containerd.root_schema if state and state.containerd else None
    if settings.containerd_root == "external" and known:
        return min(known, max(_CRI))
    version = lock.of(Part.CONTAINERD)[0].version.split(":")[-1]
    return 3 if int(version.split(".")[0]) >= 2 else 2


def _apt_files(
    lock: HostLock, settings: HostSettings, keys: Mapping[str, str]
) -> Iterator[HostFile]:
    for name in sorted({repository.key_file for repository in lock.repositories}):
        yield HostFile(path=f"/etc/apt/keyrings/tokenworks-{name}", text=keys[name])
    yield HostFile(path=SOURCES, text=render("hosts/sources.j2", lock=lock))
    packages = sorted(lock.packages, key=lambda package: package.name)
    containers = (package.name for package in lock.of(Part.CONTAINERD))
    preferences = render(
        "hosts/preferences.j2",
        packages=packages,
        beside=f"/^({BESIDE_DRIVER})$/",
        fenced=(*FENCED, *containers),
    )
    # The first record that fits counts, over all files in the order of their names.
    yield HostFile(path="/etc/apt/preferences.d/00-tokenworks", text=preferences)
    yield HostFile(
        path="/etc/apt/apt.conf.d/99tokenworks",
        text=render(
            "hosts/apt.conf.j2",
            settings=settings,
            blacklist=upgrade_blacklist(lock),
        ),
    )


def upgrade_blacklist(lock: HostLock) -> tuple[str, ...]:
    """Return the expressions of what unattended upgrades must leave alone."""
    families = re.compile("|".join(BLACKLIST))
    others = sorted(p.name for p in lock.packages if not families.match(p.name))
    return (*BLACKLIST, *(name.replace("+", "[+]") + "$" for name in others))


def _boot_files(lock: HostLock, settings: HostSettings) -> Iterator[HostFile]:
    yield HostFile(
        path="/etc/modprobe.d/tokenworks-gpu.conf",
        text=render("hosts/modprobe.conf.j2", modules=NOT_OURS),
        then=frozenset({Step.INITRAMFS}),
    )
    yield HostFile(
        path="/etc/modules-load.d/tokenworks-gpu.conf",
        text=render(
            "hosts/modules-load.conf.j2",
            modules=("nvidia", "nvidia-uvm"),
            storage=settings.storage_modules,
        ),
    )
    title = _TITLES[lock.os.split("-")[0]]
    yield HostFile(
        path="/etc/default/grub.d/50-tokenworks-kernel.cfg",
        text=render("hosts/grub.cfg.j2", lock=lock, distributor=title),
        then=frozenset({Step.BOOT_LOADER}),
    )
    yield _unit("tokenworks-gpu-devices.service", "hosts/gpu-devices.service.j2", settings)


def _container_files(
    lock: HostLock, settings: HostSettings, state: HostState | None
) -> Iterator[HostFile]:
    schema = containerd_schema(lock, settings, state)
    if settings.containerd_root == "managed":
        yield HostFile(
            path=CONTAINERD_ROOT,
            text=render("hosts/containerd-root.toml.j2", schema=schema),
            then=frozenset({Step.RESTART_CONTAINERD}),
        )
    drop_in = render(
        "hosts/containerd.toml.j2", schema=schema, plugin=_CRI[schema], runtimes=_RUNTIMES
    )
    yield HostFile(
        path="/etc/containerd/conf.d/50-tokenworks.toml",
        text=drop_in,
        then=frozenset({Step.RESTART_CONTAINERD}),
    )
    yield HostFile(
        path="/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env",
        text=render("hosts/nvidia-cdi-refresh.env.j2", cdi_spec=CDI_SPEC),
        then=frozenset({Step.REFRESH_CDI}),
    )
    yield _unit("tokenworks-cdi.service", "hosts/cdi.service.j2", settings)
    yield _unit("tokenworks-cdi.timer", "hosts/cdi.timer.j2", settings)


def _gate_files(lock: HostLock, settings: HostSettings) -> Iterator[HostFile]:
    for source in _PROGRAMS:
        yield HostFile(path=f"{_LIBRARY}/{source.name}", text=_text(source), mode="0755")
    expect = json.dumps(gate_expectations(lock, settings), indent=1, sort_keys=True) + "\n"
    yield HostFile(path="/etc/tokenworks/gate.json", text=expect)
    labels = render("hosts/node-labels.j2", labels=node_labels(lock))
    yield HostFile(path="/etc/tokenworks/node-labels", text=labels)
    yield _unit("tokenworks-gate.service", "hosts/gate.service.j2", settings)
    drop_in = f"{settings.kubelet_unit}.d/50-tokenworks-gate.conf"
    yield _unit(drop_in, "hosts/kubelet-gate.conf.j2", settings)


def gate_expectations(lock: HostLock, settings: HostSettings) -> dict[str, object]:
    """Return what the gate holds a host against, as plain data."""
    counted = lock.of(Part.DRIVER, Part.FABRIC_MANAGER, Part.TOOLKIT, Part.CONTAINERD)
    return {
        "driver": lock.driver.version,
        "modules": lock.driver.modules,
        "kernel": lock.kernel,
        "expected_gpus": settings.expected_gpus,
        "packages": {package.name: package.version for package in counted},
        "fabric_packages": [package.name for package in lock.of(Part.FABRIC_MANAGER)],
        "containerd": containerd_options(),
        "gate": settings.gate.model_dump(mode="json"),
    }


def containerd_options() -> list[tuple[str, str, str]]:
    """Return runtime, option and value that the merged configuration must show."""
    options = [(runtime["name"], "SystemdCgroup", "true") for runtime in _RUNTIMES]
    binaries = [(r["name"], "BinaryName", r["binary"]) for r in _RUNTIMES if r["binary"]]
    return options + binaries


def _unit(name: str, template: str, settings: HostSettings) -> HostFile:
    text = render(
        template,
        settings=settings,
        gate_timeout_seconds=GATE_TIMEOUT_SECONDS,
        cdi_period_seconds=CDI_PERIOD_SECONDS,
        cdi_timeout_seconds=CDI_TIMEOUT_SECONDS,
    )
    path = f"{_UNITS}/{name}"
    return HostFile(path=path, text=text, then=frozenset({Step.RELOAD_UNITS}))


def _text(path: Path) -> str:
    return path.read_text("utf-8")
