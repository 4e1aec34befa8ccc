"""One environment's simulated cluster: created, started again after a crash, stopped, deleted."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import exclusive, remove, write_whole
from tokenworks.local_cluster.health import not_ready, unwell
from tokenworks.local_cluster.launch import Launch
from tokenworks.local_cluster.layout import COMPONENTS, GATEWAY_OFFSET, Layout
from tokenworks.local_cluster.ports import Reservations, is_free, ports_of
from tokenworks.local_cluster.processes import end, running
from tokenworks.local_cluster.settings import PROGRAMS, egress, kubeconfig, settings
from tokenworks.toolchain import Toolbox
from tokenworks.toolchain.cache import Cache

PATIENCE_SECONDS: Final = 10.0
"""How long a cluster whose processes all run may be busy before it is taken for hung."""
_PORTS_CLOSE_SECONDS: Final = 5.0

Report = Callable[[str], None]
"""Takes one short sentence about what is going on."""


class State(Enum):
    """What a cluster is."""

    ABSENT = "absent"
    STOPPED = "stopped"
    DEGRADED = "degraded"
    RUNNING = "running"


@dataclass(frozen=True, kw_only=True)
class ComponentStatus:
    """One component: well, or why not."""

    name: str
    well: bool
    because: str
    pid: int | None
    log: Path


@dataclass(frozen=True, kw_only=True)
class ClusterStatus:
    """The cluster as it is now."""

    state: State
    components: tuple[ComponentStatus, ...]


@dataclass(frozen=True, kw_only=True)
class Started:
    """What ``ensure_running`` had to do."""

    created: bool
    """The cluster is new and empty: what Pulumi remembers of an earlier one is out of date."""
    started: bool
    """Its processes were started; False when it was running already."""
    because: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a cluster remembers between runs."""

    block: int
    """The first of its ports."""
    settings: str
    """The sum of the settings that its state was last written from."""
    complete: bool
    """It has been ready once, so that its data may be somebody's."""


class LocalCluster:
    """A control plane of real processes on loopback, with simulated nodes.

    Everything it keeps lies under ``<root>/.tokenworks/<environment>/cluster``; environments and
    checkouts do not see each other. All methods may be called from several processes at once.
    """

    def __init__(
        self,
        environment: str,
        root: Path,
        *,
        node_proxy: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """``node_proxy`` is the socket through which the API server reaches a real node."""
        self._layout = Layout.of(environment, root)
        self._node_proxy = node_proxy
        self._reservations = Reservations(Cache.of(environ).root)

    @property
    def kubeconfig(self) -> Path:
        """The file for kubectl and Pulumi; it exists once the cluster was started."""
        return self._layout.kubeconfig

    @property
    def context(self) -> str:
        """The name of the kubeconfig's only context."""
        return self._layout.name

    def status(self) -> ClusterStatus:
        """What runs and is well; a process that hangs counts as one that does not run."""
        record = self._record()
        alive = running(self._layout)
        components = tuple(
            self._component(each.name, alive.get(each.name, ()), record) for each in COMPONENTS
        )
        return ClusterStatus(state=self._state(components, record), components=components)

    def _component(
        self, name: str, pids: tuple[int, ...], record: Record | None
    ) -> ComponentStatus:
        component = next(each for each in COMPONENTS if each.name == name)
        if not pids:
            because = "does not run"
        elif record is None:
            because = "runs without its files"
        else:
            because = unwell(self._layout, component, ports_of(record.block))
        return ComponentStatus(
            name=name,
            well=not because,
            because=because,
            pid=pids[0] if pids else None,
            log=self._layout.log(name),
        )

    def _state(self, components: tuple[ComponentStatus, ...], record: Record | None) -> State:
        if all(each.well for each in components):
            return State.RUNNING
        if any(each.pid for each in components):
            return State.DEGRADED
        return State.STOPPED if record is not None and record.complete else State.ABSENT

    def ensure_running(self, toolbox: Toolbox, report: Report) -> Started:
        """Have the cluster run and be ready: create it, or start it with the data it has.

        Takes about 3 seconds, nothing when it runs already. A cluster of which any process died
        or hangs, or whose settings or tools changed, is stopped and started as a whole: its data
        is etcd's and stays.

        Raises:
            OperationError: a component ended or did not get ready; has its last log lines and
                the path of the log. Or another program has one of the cluster's ports.
        """
        layout = self._layout
        with exclusive(layout.home):
            layout.cluster.mkdir(mode=0o700, exist_ok=True)
            record = self._record()
            block = self._reservations.reserve(layout.cluster, record.block if record else None)
            ports = ports_of(block)
            programs = {name: toolbox.path(name) for name in PROGRAMS}
            text = settings(layout, ports, programs, self._api_server_arguments())
            because = self._why_start(record, text, ports)
            created = record is None or not record.complete
            if because:
                report(f"{'creating' if created else 'starting'} the cluster: {because}")
                self._start(toolbox, report, text, block)
            write_whole(layout.kubeconfig, kubeconfig(layout, ports["kube_apiserver"]))
        return Started(created=created, started=bool(because), because=because or "it runs")

    def _api_server_arguments(self) -> dict[str, str]:
        """What the API server is told beside the rest, and the file that it names."""
        if self._node_proxy is None:
            return {}
        write_whole(self._layout.egress, egress(self._node_proxy))
        return {"egress-selector-config-file": str(self._layout.egress)}

    def ports(self) -> Mapping[str, int]:
        """The ports of a cluster that was started, and that of the gateway of its real node.

        Raises:
            OperationError: there is none.
        """
        record = self._record()
        if record is None:
            raise OperationError(
                f"the cluster of {self._layout.environment}",
                reason="was never started",
                remedy=f"run `tokenworks up {self._layout.environment}`",
            )
        return {**ports_of(record.block), "gateway": record.block + GATEWAY_OFFSET}

    def _why_start(self, record: Record | None, text: str, ports: Mapping[str, int]) -> str:
        """Why the cluster must be started, or nothing when it runs as it should."""
        if record is None or not record.complete:
            return "there is none yet"
        if record.settings != _sum(text):
            return "its settings or tools have changed"
        alive = running(self._layout)
        dead = [each.name for each in COMPONENTS if each.name not in alive]
        if len(dead) == len(COMPONENTS):
            return "it is stopped"
        if dead:
            return f"{', '.join(dead)} ended"
        return self._why_not_ready(ports)

    def _why_not_ready(self, ports: Mapping[str, int]) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (reason := not_ready(self._layout, ports)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return reason

    def _start(self, toolbox: Toolbox, report: Report, text: str, block: int) -> None:
        layout, record, ports = self._layout, self._record(), ports_of(block)
        self._end()
        self._check_ports(ports)
        if record is None or not record.complete:
            # Whatever an unfinished creation left is nobody's.
            remove(layout.state)
            remove(layout.data)
            record = Record(block=block, settings="", complete=False)
        self._prepare(text)
        self._remember(replace(record, block=block, settings=_sum(text)))
        try:
            Launch(layout=layout, ports=ports, toolbox=toolbox, report=report).run()
        except BaseException:
            self._end()
            raise
        self._remember(Record(block=block, settings=_sum(text), complete=True))

    def _prepare(self, text: str) -> None:
        """Have kwokctl write its state anew, around the certificates and data that are there."""
        layout = self._layout
        for folder in (layout.state / "bin", layout.state / "pids"):
            remove(folder)
        (layout.state / "kwok.yaml").unlink(missing_ok=True)
        for folder in (layout.data, layout.state):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = layout.state / "etcd"
        if not link.is_symlink():
            # Relative, so that a checkout can be moved.
            link.symlink_to(Path("..", "..", "..", layout.data.name))
        write_whole(layout.config, text)

    def _check_ports(self, ports: Mapping[str, int]) -> None:
        # The system closes a killed process's ports a moment after the process is gone.
        deadline = time.monotonic() + _PORTS_CLOSE_SECONDS
        while (busy := _busy(ports)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if busy:
            environment = self._layout.environment
            raise OperationError(
                f"starting the cluster of {environment}",
                reason=f"another program listens on its port {', '.join(busy)}",
                remedy="end that program (`ss -ltnp` names it), or give the cluster new ports and "
                f"no data with `tokenworks down {environment}` and `tokenworks up {environment}`",
            )

    def stop(self) -> None:
        """End every process of the cluster; its data stays."""
        if self._layout.home.is_dir():
            with exclusive(self._layout.home):
                self._end()

    def delete(self) -> None:
        """End every process, and remove the data, the kubeconfig and the ports' reservation."""
        layout = self._layout
        with exclusive(layout.home):
            self._end()
            remove(layout.cluster)
            layout.kubeconfig.unlink(missing_ok=True)
            self._reservations.release(layout.cluster)
            with suppress(OSError):  # it has other things of the environment
                layout.home.rmdir()
        with suppress(OSError):
            layout.home.parent.rmdir()

    def _end(self) -> None:
        try:
            end(self._layout)
        except TimeoutError as error:
            raise OperationError(
                f"ending the cluster of {self._layout.environment}",
                reason=f"{error} does not end",
                remedy="end it by hand",
            ) from error

    def _record(self) -> Record | None:
        """What the cluster remembers; nothing when that is lost or unreadable, or its data is."""
        layout = self._layout
        try:
            record = Record(**json.loads(layout.record.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return replace(record, complete=record.complete and (layout.data / "member").is_dir())

    def _remember(self, record: Record) -> None:
        write_whole(self._layout.record, f"{json.dumps(asdict(record), indent=2)}\n")


def _busy(ports: Mapping[str, int]) -> list[str]:
    return [str(port) for port in ports.values() if not is_free(port)]


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
