"""A real node on this machine: started, joined to its cluster, stopped, removed without a trace."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.errors import OperationError
from tokenworks.files import exclusive, private_folder, write_whole
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_cluster.processes import signal_program, started_by
from tokenworks.local_node.cgroups import Cgroups
from tokenworks.local_node.identity import sign
from tokenworks.local_node.join import Join
from tokenworks.local_node.layout import NodeLayout
from tokenworks.local_node.machine import (
    Machine,
    Ports,
    config_files,
    enter_spec,
    kubeconfig,
    node_files,
    users,
)
from tokenworks.local_node.start import start

READY_SECONDS: Final = 60
END_SECONDS: Final = 10.0
TAIL_LINES: Final = 12
_POLL_SECONDS: Final = 0.1

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a node is made of."""

    machine: Machine
    programs: Mapping[str, Path]
    """Tools by name: those of ``PROGRAMS`` and ``PLUGINS``, and kubectl."""
    debian: Path
    """A root file system, which is never written to."""
    images: Path
    """An archive with every image that runs here."""
    hub: Path
    """A folder of models' files, which the stand-in for a hub serves."""
    pause: str
    dns: str
    """References of the two images that are the node's own."""
    ports: Ports


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a node remembers between runs."""

    parts: str
    """The sum of what it was last started from."""
    images: str
    """The archive that was last imported."""
    name: str
    """What the cluster calls it, whatever the environment's file says by now."""


def made_from(parts: Parts, authority: bytes) -> str:
    """The sum of all that a start depends on: with another one a running node is out of date.

    Its own files are read anew at every start, so what they say belongs to it, and whoever has
    another authority, as a cluster that was made again, does not believe its certificates.
    """
    return hashlib.sha256(repr((parts, node_files(), authority)).encode()).hexdigest()


class LocalNode:
    """One node in namespaces of its own, beside whatever the machine runs already.

    Everything that it keeps lies under ``<root>/.tokenworks/<environment>/node``.
    """

    def __init__(self, environment: str, root: Path) -> None:
        self._cluster = Layout.of(environment, root)
        self._layout = NodeLayout(self._cluster)
        self._cgroups = Cgroups(self._layout.identity)

    @property
    def proxy(self) -> Path:
        """The socket through which the API server reaches it."""
        return self._layout.proxy

    @property
    def logs(self) -> Path:
        """The folder with what its programs said."""
        return self._layout.logs

    @property
    def is_there(self) -> bool:
        """Whether it keeps anything here, running or not."""
        return self._layout.root.is_dir()

    @property
    def names(self) -> tuple[str, ...]:
        """What the cluster calls it, if it ever was ready."""
        name = self._record().get("name")
        return (name,) if isinstance(name, str) else ()

    def pid(self) -> int | None:
        """The process that everything on the node ends with, if it runs."""
        found = started_by([str(self._layout.starter)])
        return next((pid for pid, _ in found), None)

    def ensure_running(self, parts: Parts, report: Report) -> bool:
        """Have the node run and be ready; returns whether it had to be started.

        Raises:
            OperationError: a program of it did not start; has its last log lines and the path.
        """
        layout = self._layout
        with exclusive(layout.root):
            text = made_from(parts, (self._cluster.pki / "ca.crt").read_bytes())
            if self.pid() is not None and self._record().get("parts") == text:
                return False
            report("starting the node")
            self._end()
            self._prepare(parts)
            try:
                began = datetime.datetime.now(datetime.UTC)
                self._start(parts)
                self._import(parts)
                self._join(parts, began)
            except BaseException:
                self._end()
                raise
            record = Record(parts=text, images=str(parts.images), name=parts.machine.name)
            write_whole(layout.record, f"{json.dumps(asdict(record), indent=2)}\n")
        return True

    def _record(self) -> dict[str, Any]:
        try:
            found = json.loads(self._layout.record.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _prepare(self, parts: Parts) -> None:
        layout = self._layout
        for folder in layout.folders:
            private_folder(folder)
        for folder in (layout.root, layout.merged, layout.root / "upper", layout.volumes):
            folder.chmod(0o755)
        files = config_files(parts.machine, self._cluster, parts.pause)
        now = datetime.datetime.now(datetime.UTC)
        for program, user in users(parts.machine).items():
            credentials = sign(user, self._cluster.pki, now)
            files[f"{program}.crt"] = credentials.certificate
            files[f"{program}.key"] = credentials.key
            files[f"{program}.kubeconfig"] = kubeconfig(program, parts.ports.api)
        for name, text in files.items():
            write_whole(layout.config / name, text)
        self._cgroups.make()

    def _start(self, parts: Parts) -> None:
        spec = enter_spec(
            parts.machine, self._layout, parts.debian, parts.hub, parts.programs, self._cgroups
        )
        started = start(self._layout, parts.machine, parts.ports, spec)
        self._until(lambda: self._has_socket(started), "containerd", READY_SECONDS)

    def _has_socket(self, started: subprocess.Popen[bytes]) -> bool:
        if started.poll() is not None:
            raise self._failure("init", f"ended with {started.returncode}")
        return self._ctr_address() is not None

    def _ctr_address(self) -> Path | None:
        """Containerd's socket, seen through the root of the node's first process."""
        pid = self.pid()
        if pid is None:
            return None
        with suppress(OSError, IndexError):
            child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
            socket = Path(f"/proc/{child}/root/run/containerd/containerd.sock")
            return socket if socket.exists() else None
        return None

    def _import(self, parts: Parts) -> None:
        if self._record().get("images") == str(parts.images):
            return
        place = ("--address", str(self._ctr_address()), "--namespace", "k8s.io")
        command = [str(parts.programs["ctr"]), *place, "images", "import", str(parts.images)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise self._failure("containerd", f"does not take images: {done.stderr.strip()}")

    def _join(self, parts: Parts, began: datetime.datetime) -> None:
        join = Join(parts.programs["kubectl"], self._cluster.kubeconfig, parts.machine)
        join.add_ons(parts.dns)
        self._until(lambda: join.is_ready(began), "kubelet", READY_SECONDS)
        join.describe()
        self._until(join.resolves_names, "kubelet", READY_SECONDS)

    def _until(self, done: Callable[[], bool], program: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise self._failure(program, f"is not ready after {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _failure(self, program: str, reason: str) -> OperationError:
        log = self._layout.logs / f"{program}.log"
        text = log.read_text(errors="replace") if log.exists() else "(there is none)"
        lines = "\n".join(f"  {line[:400]}" for line in text.splitlines()[-TAIL_LINES:])
        return OperationError(
            f"starting the node of {self._cluster.environment}",
            reason=f"{program} {reason}",
            remedy=f"read {log}, it ends with\n{lines}",
        )

    def prepare_volumes(self, claims: Mapping[str, int]) -> None:
        """A folder for each claim, ``namespace/name``, for the group that its pods write as.

        A volume of a host's folder is the only kind whose group no kubelet sets.
        """
        for claim, group in claims.items():
            folder = self._layout.volumes / claim
            folder.mkdir(parents=True, exist_ok=True)
            os.chown(folder, 0, group)
            folder.chmod(0o2775)

    def stop(self) -> None:
        """End everything that runs on the node; its images and volumes stay."""
        if self.is_there:
            with exclusive(self._layout.root):
                self._end()

    def delete(self) -> None:
        """End everything, and remove whatever the node kept."""
        if not self.is_there:
            return
        with exclusive(self._layout.root):
            self._end()
            # The folder goes last: while it is there, whatever was cut off is done again.
            self._layout.proxy.unlink(missing_ok=True)
            shutil.rmtree(self._layout.root)

    def _end(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while (pid := self.pid()) is not None:
            if time.monotonic() > deadline:
                raise OperationError(
                    f"ending the node of {self._cluster.environment}",
                    reason=f"process {pid} does not end",
                    remedy="end it by hand",
                )
            with suppress(ProcessLookupError):
                signal_program(pid, str(self._layout.starter), signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(_POLL_SECONDS)
        try:
            self._cgroups.remove()
        except TimeoutError as error:
            raise OperationError(
                f"ending the node of {self._cluster.environment}",
                reason=f"a process is still in {error}",
                remedy="end what its cgroup.procs names, and run it again",
            ) from error
