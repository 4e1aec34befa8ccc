"""A machine of one's own: real kernel, systemd, sshd and boot loader, emulated by qemu.

What is real: everything from the firmware's jump to the boot loader on. What is not: speed (a tenth
to a twentieth), and the GPUs, which a kernel module of the image puts on the PCI bus.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.machines.image import Image

BOOT_SECONDS: Final = 420
"""When to give up on a boot, which takes 20 to 30 seconds on two idle cores."""
_NUMBERS: Final = count(1)


class Machine:
    """One machine: a disk that lasts, and power that comes and goes."""

    def __init__(self, image: Image, folder: Path, *, disk: Path | None = None) -> None:
        """Make one, powered off, as the image is or as another machine's disk is."""
        folder.mkdir(parents=True)
        self.image = image
        self.address = f"127.77.{os.getpid() % 250 + 1}.{next(_NUMBERS)}"
        self.disk = folder / "disk.qcow2"
        self.console = folder / "console"
        self._folder = folder
        self._qemu: subprocess.Popen[bytes] | None = None
        backing, kind = (disk, "qcow2") if disk else (image.disk, "raw")
        _done("qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", backing, self.disk)
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(image.known_hosts(self.address))

    # --- Power and wire ---------------------------------------------------------------------------

    def start(self) -> None:
        """Switch it on and wait until its boot is over, whatever became of its units."""
        assert not self.is_on, f"{self} is on already"
        self._qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
        self.wait()

    def wait(self) -> str:
        """Wait until its boot is over; return what systemd says of it, running or degraded."""
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            self._expect_power()
            said = self._ssh("systemctl is-system-running --wait", seconds=BOOT_SECONDS)
            state = said.stdout.strip()
            if said.returncode != 255 and state not in ("", "stopping", "offline"):
                return state
            time.sleep(0.5)
        raise AssertionError(f"{self} did not boot:\n{self._last_words()}")

    def reboot(self) -> None:
        """Reboot it as an operator would, and wait until that is over."""
        before = self.boot_id
        self._ssh("systemctl reboot")
        deadline = time.monotonic() + BOOT_SECONDS
        while self._ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip() in ("", before):
            self._expect_power()
            assert time.monotonic() < deadline, f"no reboot:\n{self._last_words()}"
            time.sleep(0.5)
        self.wait()

    @property
    def is_on(self) -> bool:
        """Whether it has power and has not switched itself off."""
        return self._qemu is not None and self._qemu.poll() is None

    def power_off(self) -> None:
        """Shut it down in an orderly way."""
        self._ssh("systemctl poweroff")
        assert self._qemu is not None
        self._qemu.wait(timeout=BOOT_SECONDS)

    def cut_power(self) -> None:
        """Pull the plug: what was not written to the disk is lost."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()

    def set_wire(self, *, connected: bool) -> None:
        """Pull the network cable out, or put it back."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self._folder / "monitor"))
            with monitor.makefile("rw") as lines:
                lines.readline()  # the greeting
                orders: tuple[dict[str, Any], ...] = (
                    {"execute": "qmp_capabilities"},
                    {"execute": "set_link", "arguments": {"name": "wire", "up": connected}},
                )
                for order in orders:
                    lines.write(json.dumps(order) + "\n")
                    lines.flush()
                    answer = json.loads(lines.readline())
                    while "event" in answer:
                        answer = json.loads(lines.readline())
                    assert "return" in answer, answer

    # --- What an operator does on it --------------------------------------------------------------

    def run(self, command: str, *, status: int | None = 0, seconds: float = 600) -> str:
        """Run a shell command as root; return what it prints. ``status`` None allows any."""
        done = self._ssh(command, seconds=seconds)
        assert status in (None, done.returncode), f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        done = self._ssh(f"cat > {shlex.quote(path)}", given=text)
        assert done.returncode == 0, done.stderr

    def copy(self, file: Path, path: str) -> None:
        """Bring a file of ours onto it."""
        with file.open("rb") as content:
            done = subprocess.run(
                [*self._client(), f"cat > {shlex.quote(path)}"],
                stdin=content,
                capture_output=True,
                check=False,
                timeout=600,
            )
        assert done.returncode == 0, done.stderr.decode()

    @property
    def boot_id(self) -> str:
        """What differs from boot to boot."""
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()

    @property
    def kernel(self) -> str:
        """Release of the running kernel."""
        return self.run("uname -r").strip()

    @property
    def driver(self) -> str:
        """Version of the loaded driver, empty where none is."""
        said = self.run("cat /proc/driver/nvidia/version", status=None)
        return said.split("x86_64")[1].split()[0] if said else ""

    def version(self, package: str) -> str:
        """Version of an installed package, empty where it is not."""
        wanted = "${db:Status-Status} ${Version}"
        said = self.run(f"dpkg-query --show --showformat='{wanted}' {package}", status=None).split()
        return said[1] if said[:1] == ["installed"] else ""

    def unit(self, name: str) -> str:
        """State of a unit, such as active or failed."""
        return self.run(f"systemctl is-active {name}", status=None).strip()

    def __str__(self) -> str:
        """Its address."""
        return f"machine {self.address}"

    # --- How --------------------------------------------------------------------------------------

    def _command(self) -> list[str]:
        folder, image = self._folder, self.image
        devices = (
            ("-drive", f"file={image.loader},format=raw,if=none,id=loader,snapshot=on"),
            ("-device", "ide-hd,drive=loader,bootindex=0"),
            ("-drive", f"file={self.disk},format=qcow2,if=none,id=disk,cache=unsafe"),
            ("-device", "virtio-blk-pci,drive=disk"),
            ("-netdev", f"user,id=wire,hostfwd=tcp:{self.address}:22-:22"),
            ("-device", "virtio-net-pci,netdev=wire,romfile="),
            ("-device", "virtio-rng-pci"),
            ("-serial", f"file:{self.console}"),
            ("-qmp", f"unix:{folder / 'monitor'},server=on,wait=off"),
        )
        return [
            # However a test run ends, its machines end with it.
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-nodefaults"),
            # Kernel-based virtualization is rarely there, nested or in a container; and five levels
            # of page tables cost time for nothing.
            *("-accel", "tcg,thread=multi", "-cpu", "max,-la57", "-smp", "2", "-m", "1024"),
            *("-display", "none"),
            *(word for pair in devices for word in pair),
        ]

    def _client(self) -> list[str]:
        options = (
            "BatchMode=yes",
            f"UserKnownHostsFile={self.known_hosts}",
            "GlobalKnownHostsFile=none",
            "ConnectTimeout=5",
            "ServerAliveInterval=15",
            "LogLevel=ERROR",
        )
        flags = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "none", "-i", str(self.image.key_file), *flags, f"root@{self.address}"]

    def _ssh(
        self, command: str, *, given: str = "", seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._client(), command],
                input=given,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess([command], 255, "", f"no answer in {seconds} s")

    def _expect_power(self) -> None:
        assert self.is_on, f"{self} is off:\n{self._last_words()}"

    def _last_words(self) -> str:
        return self.console.read_text(errors="replace")[-2000:] if self.console.exists() else ""


@contextmanager
def machine(image: Image, folder: Path, *, disk: Path | None = None) -> Iterator[Machine]:
    """Give a machine that is off, and take its power when it is no longer needed."""
    made = Machine(image, folder, disk=disk)
    try:
        yield made
    finally:
        made.cut_power()


def _done(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
