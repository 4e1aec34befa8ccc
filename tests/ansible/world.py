"""Hosts that are folders, the lock for them, and Ansible run on them for real."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.ansible import debs
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.lock_file import make_lock
from tokenworks.hosts.names import RENAMED_AT
from tokenworks.hosts.request import LockRequest
from tokenworks.hosts.settings import HostSettings

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).parent
GPUS: Final = 2


@dataclass(frozen=True, kw_only=True)
class Archive:
    """An apt repository that answers over HTTP on loopback, and the key that signs it."""

    folder: Path
    uri: str
    fingerprint: str
    armoured: str

    def lock(
        self,
        driver: str = debs.DRIVER,
        *,
        kernel: str = debs.KERNEL,
        toolkit: str = debs.TOOLKIT,
        os: str = "debian-12",
    ) -> HostLock:
        """Return the lock for a driver version, resolved from the packages of this folder.

        Packages have Ubuntu's names, whatever the roots are.
        """
        keys = self.folder / "keys"
        keys.mkdir(exist_ok=True)
        (keys / "tests.asc").write_text(self.armoured)
        made = make_lock(self._request(driver, kernel, toolkit), keys)
        (repository,) = made.repositories
        reached = repository.model_copy(update={"uri": self.uri})
        return made.model_copy(update={"os": os, "repositories": (reached,)})

    def _request(self, driver: str, kernel: str, toolkit: str) -> LockRequest:
        renamed = int(driver.split(".", 1)[0]) >= RENAMED_AT
        repository = {
            "name": "tests",
            "uri": f"file://{self.folder}",
            "suite": "./",
            "key_file": "tests.asc",
            "key_fingerprint": self.fingerprint,
            "parts": list(Part),
        }
        return LockRequest.model_validate(
            {
                "os": "ubuntu-24.04",
                "architecture": "amd64",
                "kernel": kernel,
                "compiler": "gcc-12",
                "driver": {"version": driver, "modules": "open", "archive": "cuda"},
                "nvidia_smi": debs.SMI_SINCE_590 if renamed else None,
                "toolkit_version": toolkit,
                "containerd": {"package": "containerd.io", "version": f"{debs.CONTAINERD}-1"},
                "repositories": [repository],
            }
        )


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a run ended: its exit status, what each task returned, and all that was printed."""

    status: int
    tasks: Mapping[str, dict[str, Any]]
    output: str

    @property
    def changes(self) -> dict[str, Any]:
        """The plan of what differed."""
        planned: dict[str, Any] = self.tasks["Plan what differs from the lock"]["tokenworks"][
            "changes"
        ]
        return planned

    @property
    def changed(self) -> list[str]:
        """Tasks that changed something."""
        return [name for name, result in self.tasks.items() if result.get("changed")]

    @property
    def message(self) -> str:
        """What the failed tasks said."""
        failed = (r for r in self.tasks.values() if r.get("failed"))
        return "\n".join(str(result.get("msg", "")) for result in failed)


Play = Callable[..., Ran]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One folder as a host."""

    root: Path
    settings: HostSettings = field(default=HostSettings(expected_gpus=GPUS))
    failure_domain: str | None = None

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run(self, *command: str, status: int | None = 0) -> str:
        """Run a program in the folder, as an operator would by hand."""
        done = subprocess.run(
            ["chroot", str(self.root), "/bin/sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command],  # noqa: S607
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert status in (None, done.returncode), done.stdout + done.stderr
        return done.stdout + done.stderr

    def apt(self, *packages: str) -> str:
        """Install by hand, whatever holds and preferences say."""
        return self.run(
            "apt-get", "-q", "--yes", "--allow-downgrades", "--allow-change-held-packages",
            "--no-install-recommends", "install", *packages,
        )  # fmt: skip

    @property
    def packages(self) -> dict[str, str]:
        """Installed packages that a lock is about, by name."""
        said = self.run(
            "dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package} ${Version}\n"
        )
        lines = (line.split() for line in said.splitlines())
        return {line[1]: line[2] for line in lines if line[0] == "installed"}

    @property
    def log(self) -> list[str]:
        """What systemd was told and whether the host was shut down, in order."""
        log = self.root / "var/log/stand-in.log"
        return log.read_text().splitlines() if log.exists() else []

    def snapshot(self) -> dict[str, tuple[int, str]]:
        """Return mode and content of every file that may matter; caches and logs do not."""
        return {
            str(path.relative_to(self.root)): (path.lstat().st_mode, _content(path))
            for folder in (
                "etc",
                "boot",
                "usr/local",
                "var/lib/dpkg",
                "var/lib/stand-in",
                "var/lib/tokenworks",
                "run",
            )
            for path in sorted((self.root / folder).rglob("*"))
            if not path.is_dir() and path.name not in ("lock", "lock-frontend")
        }


def _content(path: Path) -> str:
    return (
        str(path.readlink()) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
    )


def furnish(root: Path, release: str = debs.KERNEL) -> Machine:
    """Make a fresh root a host with two GPUs whose kernel runs and whose driver is nouveau."""
    machine = Machine(root=root)
    shutil.copytree(HERE / "stand_in", root / "usr/local/lib/stand-in", dirs_exist_ok=True)
    program = root / debs.MACHINE.lstrip("/")
    program.chmod(0o755)
    (program.parent / "dkms-remove").symlink_to("machine.py")
    (program.parent / "boot").symlink_to("machine.py")
    for name in (
        "bin/systemctl",
        "bin/journalctl",
        "sbin/shutdown",
        "sbin/modprobe",
        "sbin/update-grub",
        "sbin/update-initramfs",
    ):
        place = root / "usr" / name
        place.unlink(missing_ok=True)
        place.symlink_to(debs.MACHINE)
    for path, text in {
        "proc/sys/kernel/osrelease": f"{release}\n",
        "proc/sys/kernel/random/boot_id": "first\n",
        "proc/version": f"Linux version {release} (gcc-12 (Debian 12.2.0-14) 12.2.0)\n",
        "proc/modules": "nouveau 1 0 - Live 0x0\n",
        f"boot/vmlinuz-{release}": release,
        f"boot/initrd.img-{release}": "",
        "boot/grub/placeholder": "",
        "var/lib/stand-in/enabled/.keep": "",
        "run/lock/.keep": "",
    }.items():
        machine.write(path, text)
    (root / "proc/1").mkdir()
    (root / "proc/1/root").symlink_to("/")
    for number in range(GPUS):
        device = f"sys/bus/pci/devices/0000:0{number + 1}:00.0"
        fields = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}
        widths = {"current_link_width": "16", "max_link_width": "16"}
        for name, text in (fields | widths).items():
            machine.write(f"{device}/{name}", text + "\n")
    machine.run("update-grub")
    return machine


def add_nvswitch(machine: Machine) -> None:
    for name, text in {"vendor": "0x10de", "device": "0x22a3", "class": "0x068000"}.items():
        machine.write(f"sys/bus/pci/devices/0000:a1:01.0/{name}", text + "\n")


def _told(machine: Machine) -> dict[str, str]:
    """What the inventory says of one host alone."""
    domain = machine.failure_domain
    return {"ansible_host": str(machine.root)} | ({"host_failure_domain": domain} if domain else {})


def play(
    playbook: str,
    machines: Mapping[str, Machine],
    lock: HostLock,
    archive: Archive,
    folder: Path,
    options: Iterable[str] = (),
    programs: Path | None = None,
    **variables: Any,
) -> Ran:
    """Run one of our playbooks with the configuration that we ship; return what became of it.

    ``programs`` is a folder that goes before the PATH.
    """
    keys = {"tests.asc": archive.armoured}
    settings = next(iter(machines.values())).settings
    inventory = {
        "all": {
            "hosts": {name: _told(machine) for name, machine in machines.items()},
            "vars": {
                "ansible_connection": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "host_lock": lock.model_dump(mode="json"),
                "host_settings": settings.model_dump(mode="json"),
                "host_keys": keys,
                "host_kubeconfig": "",
                **variables,
            },
        }
    }
    before = [programs] if programs else []
    folder.mkdir(exist_ok=True)
    (folder / "hosts.json").write_text(json.dumps(inventory))
    environment = {
        "PATH": ":".join(map(str, [*before, Path(sys.executable).parent, os.environ["PATH"]])),
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(ROOT / "ansible" / "ansible.cfg"),
        "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "plugins" / "connection"),
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "plugins" / "callback"),
        "ANSIBLE_STDOUT_CALLBACK": "as_json",
        "TESTS_RESULTS": str(folder / "results.jsonl"),
    }
    (folder / "results.jsonl").unlink(missing_ok=True)
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i", str(folder / "hosts.json"), *options, str(ROOT / "ansible" / playbook),
        ],
        env=environment, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    results = folder / "results.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    tasks = {
        row["task"] if len(machines) == 1 else f"{row['host']}: {row['task']}": row["result"]
        for row in map(json.loads, lines)
    }
    return Ran(status=done.returncode, tasks=tasks, output=done.stdout + done.stderr)
