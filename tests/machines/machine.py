"""A machine of one's own: real kernel, systemd, sshd and boot loader, emulated by qemu.

What is real: everything from the firmware's jump to the boot loader on. What is not: speed (a tenth
to a twentieth), and the GPUs, which a kernel module of the image puts on the PCI bus. A machine
that runs can be frozen; others go on from there in two seconds, each with a disk of its own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from tests.machines import monitor
from tests.machines.image import Image
from tests.machines.monitor import Monitor
from tests.machines.progress import told

BOOT_SECONDS: Final = 420
"""When to give up on a boot, which takes 20 to 30 seconds on two idle cores."""
_LINE_SECONDS: Final = 60
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""However a test run ends, what it started ends with it."""
_NUMBERS: Final = count(1)


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A machine at one moment, running: its disk and its memory. Neither is written any more."""

    disk: Path
    memory: Path


class Machine:
    """One machine: a disk that lasts, and power that comes and goes."""

    def __init__(self, image: Image, folder: Path, frozen: Frozen | None = None) -> None:
        """Make one, powered off, as the image is or to go on from a frozen one."""
        folder.mkdir(parents=True)
        self.image = image
        self.address = f"127.77.{os.getpid() % 250 + 1}.{next(_NUMBERS)}"
        self.disk = folder / "disk.qcow2"
        self.console = folder / "console"
        self._folder = folder
        self._frozen = frozen
        self._qemu: subprocess.Popen[bytes] | None = None
        self._line: subprocess.Popen[bytes] | None = None
        backing, kind = (frozen.disk, "qcow2") if frozen else (image.disk, "raw")
        _done("qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", backing, self.disk)
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(image.known_hosts(self.address))

    # --- Power and wire ---------------------------------------------------------------------------

    def start(self) -> None:
        """Switch it on and wait until its boot is over, whatever became of its units.

        The first start of a machine that goes on from a frozen one is no boot.
        """
        assert not self.is_on, f"{self} is on already"
        if self._frozen is not None:
            self._go_on(self._frozen)
            self._frozen = None
            return
        with told(f"{self} boots"):
            self._qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
            self.wait()

    def wait(self) -> str:
        """Wait until its boot is over; return what systemd says of it, running or degraded."""
        deadline = time.monotonic() + BOOT_SECONDS
        # An attempt that comes too early waits for nothing, one on a busy machine for a while.
        for patience_seconds in count(4):
            assert time.monotonic() < deadline, f"{self} did not boot:\n{self._last_words()}"
            self._expect_power()
            said = self._ssh("systemctl is-system-running --wait", patience=patience_seconds)
            state = said.stdout.strip()
            if said.returncode != 255 and state not in ("", "stopping", "offline"):
                return state
            time.sleep(0.5)
        raise AssertionError  # count never ends

    def reboot(self) -> None:
        """Reboot it as an operator would, and wait until that is over."""
        with told(f"{self} reboots"), Monitor(self._monitor, BOOT_SECONDS) as monitor:
            self.hang_up()
            self._ssh("systemctl reboot")
            monitor.wait_for("RESET")
            self.wait()

    @property
    def is_on(self) -> bool:
        """Whether it has power and has not switched itself off."""
        return self._qemu is not None and self._qemu.poll() is None

    def cut_power(self) -> None:
        """Pull the plug: what was not written to the disk is lost."""
        self.hang_up()
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()

    def freeze(self) -> Frozen:
        """End it, so that others can go on from what it is now."""
        self.run("sync")
        self.hang_up()
        frozen = Frozen(disk=self.disk, memory=self._folder / "memory")
        with told(f"{self} is frozen"):
            monitor.write_memory(self._monitor, frozen.memory)
        self.cut_power()
        return frozen

    def set_wire(self, *, connected: bool) -> None:
        """Pull the network cable out, or put it back."""
        self.hang_up()
        monitor.order(self._monitor, "set_link", name="wire", up=connected)

    def hang_up(self) -> None:
        """Close the connection that commands share; the next command opens another."""
        if self._line is not None:
            self._line.kill()
            self._line.wait()
            self._line = None
        self._socket.unlink(missing_ok=True)

    # --- What an operator does on it --------------------------------------------------------------

    def run(self, command: str, *, status: int | None = 0, seconds: float = 600) -> str:
        """Run a shell command as root; return what it prints. ``status`` None allows any."""
        self._pick_up()
        done = self._ssh(command, seconds=seconds)
        told_all = f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        assert done.returncode == status or (status is None and done.returncode != 255), told_all
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        self._pick_up()
        done = self._ssh(f"cat > {shlex.quote(path)}", given=text)
        assert done.returncode == 0, done.stderr

    def copy(self, file: Path, path: str) -> None:
        """Bring a file of ours onto it."""
        self._pick_up()
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
        return self.run(f"cat {_BOOT_ID}").strip()

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
        image = self.image
        devices = (
            ("-drive", f"file={image.loader},format=raw,if=none,id=loader,snapshot=on"),
            ("-device", "ide-hd,drive=loader,bootindex=0"),
            ("-drive", f"file={self.disk},format=qcow2,if=none,id=disk,cache=unsafe"),
            ("-device", "virtio-blk-pci,drive=disk"),
            ("-netdev", f"user,id=wire,hostfwd=tcp:{self.address}:22-:22"),
            ("-device", "virtio-net-pci,netdev=wire,romfile="),
            ("-device", "virtio-rng-pci"),
            ("-serial", f"file:{self.console}"),
            ("-qmp", f"unix:{self._monitor},server=on,wait=off"),
        )
        return [
            *(*_WITH_US, "qemu-system-x86_64", "-nodefaults"),
            # Kernel-based virtualization is rarely there, nested or in a container; and five levels
            # of page tables cost time for nothing.
            *("-accel", "tcg,thread=multi", "-cpu", "max,-la57", "-smp", "2", "-m", "1024"),
            *("-display", "none"),
            *(word for pair in devices for word in pair),
        ]

    def _go_on(self, frozen: Frozen) -> None:
        with told(f"{self} goes on"):
            command = [*self._command(), *monitor.read_memory(frozen.memory)]
            self._qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            monitor.go_on(self._monitor)
            # Its clock has stood still, and a signature of today is none of tomorrow's.
            self.run(f"date --set=@{int(time.time())}")

    @property
    def _monitor(self) -> Path:
        return self._folder / "monitor"

    @property
    def _socket(self) -> Path:
        return self._folder / "line"

    def _pick_up(self) -> None:
        """Open the connection that commands share: each of its own costs a second or two."""
        if self._line is not None and self._line.poll() is None:
            return
        self.hang_up()
        master = [*_WITH_US, *self._client(), "-N", "-o", "ControlMaster=yes"]
        self._line = subprocess.Popen(master, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _LINE_SECONDS
        while not self._socket.exists() and self._line.poll() is None:
            assert time.monotonic() < deadline, f"{self} does not answer:\n{self._last_words()}"
            time.sleep(0.02)

    def _client(self, patience: int = _LINE_SECONDS) -> list[str]:
        options = (
            "BatchMode=yes",
            f"UserKnownHostsFile={self.known_hosts}",
            "GlobalKnownHostsFile=none",
            f"ConnectTimeout={patience}",
            "ServerAliveInterval=15",
            "LogLevel=ERROR",
            f"ControlPath={self._socket}",
        )
        flags = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "none", "-i", str(self.image.key_file), *flags, f"root@{self.address}"]

    def _ssh(
        self,
        command: str,
        *,
        given: str = "",
        seconds: float = BOOT_SECONDS,
        patience: int = _LINE_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._client(patience), command],
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
def machine(image: Image, folder: Path, frozen: Frozen | None = None) -> Iterator[Machine]:
    """Give a machine that is off; in the end its power is cut and its disk thrown away."""
    made = Machine(image, folder, frozen)
    try:
        yield made
    finally:
        made.cut_power()
        shutil.rmtree(folder)


def _done(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
