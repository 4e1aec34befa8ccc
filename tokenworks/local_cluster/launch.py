"""Starting a stopped cluster, and noticing at once when one of its components ends."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.local_cluster.health import not_ready
from tokenworks.local_cluster.layout import COMPONENTS, Layout
from tokenworks.local_cluster.processes import running
from tokenworks.toolchain import Toolbox

READY_SECONDS: Final = 120
"""How long a start may take. Measured on 2 cores: 3 s; this is for machines that are very busy."""
TAIL_LINES: Final = 12
_POLL_SECONDS: Final = 0.1
_SAY_EVERY_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of a cluster that has a configuration and no processes."""

    layout: Layout
    ports: Mapping[str, int]
    toolbox: Toolbox
    report: Callable[[str], None]

    def run(self) -> None:
        """Start the processes and wait until the cluster is ready for work.

        Raises:
            OperationError: a component ended, or the cluster was not ready in time.
        """
        deadline = time.monotonic() + READY_SECONDS
        kwokctl = self._start()
        try:
            self._follow(kwokctl, deadline)
        finally:
            if kwokctl.poll() is None:
                kwokctl.kill()
            kwokctl.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        layout = self.layout
        layout.kwokctl.unlink(missing_ok=True)
        layout.kwokctl.symlink_to(self.toolbox.path("kwokctl"))
        with layout.kwokctl_log.open("wb") as log:
            # The configuration is named relative to its folder: kwokctl splits the value at commas.
            options = ["--config", layout.config.name, "--timeout", f"{READY_SECONDS}s"]
            return subprocess.Popen(
                [
                    layout.kwokctl,
                    "create",
                    "cluster",
                    "--name",
                    layout.name,
                    "--kubeconfig=",
                    *options,
                ],
                cwd=layout.cluster,
                # Nothing of the caller's: KWOK_ variables change the cluster, and the first
                # kubectl on PATH is the one that kwokctl waits with. It keeps its state in the
                # home folder; of KWOK_WORKDIR, made for that, it drops what follows a space.
                env={
                    "HOME": str(layout.cluster),
                    "PATH": str(self.toolbox.path("kubectl").parent),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # The keys that it writes are the owner's alone.
                umask=0o077,
            )

    def _follow(self, kwokctl: subprocess.Popen[bytes], deadline: float) -> None:
        began = said = time.monotonic()
        while True:
            code = kwokctl.poll()
            self._check(code)
            waits_for = "kwokctl is at work" if code is None else not_ready(self.layout, self.ports)
            if not waits_for:
                return
            now = time.monotonic()
            if now >= deadline:
                raise self._failure(f"not ready after {READY_SECONDS} s: {waits_for}", waits_for)
            if now - said >= _SAY_EVERY_SECONDS:
                said = now
                self.report(f"waiting for {now - began:.0f} s: {waits_for}")
            time.sleep(_POLL_SECONDS)

    def _check(self, kwokctl_code: int | None) -> None:
        """Fail when kwokctl failed, or when a component that it had started is gone."""
        started = {each.name for each in COMPONENTS if self.layout.pid_file(each.name).exists()}
        alive = running(self.layout)
        expected = started if kwokctl_code is None else {each.name for each in COMPONENTS}
        if kwokctl_code:
            self._raise_first_gone(started - set(alive))
            raise self._failure(f"kwokctl ended with code {kwokctl_code}", "kwokctl")
        self._raise_first_gone(expected - set(alive))

    def _raise_first_gone(self, gone: set[str]) -> None:
        for component in COMPONENTS:
            if component.name in gone:
                raise self._failure(f"{component.name} ended", component.name)

    def _failure(self, reason: str, culprit: str) -> OperationError:
        """An error with the last lines of the log of whatever is to blame."""
        named = (each.name for each in COMPONENTS if culprit.startswith(each.name))
        name = next(named, None)
        log = self.layout.log(name) if name else self.layout.kwokctl_log
        return OperationError(
            f"starting the cluster of {self.layout.environment}",
            reason=reason,
            remedy=f"read {log}, it ends with\n{_tail(log)}\n(what the cluster had stored is kept)",
        )


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        lines = ["(there is none)"]
    return "\n".join(f"  {line[:400]}" for line in lines)
