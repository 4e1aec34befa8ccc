"""What is measured: each subject is an address with a certificate, and the processes behind it."""

from __future__ import annotations

import dataclasses
import datetime
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.files import private_folder
from tokenworks.gateway import programs
from tokenworks.gateway.layout import (
    GATEWAY,
    LOOPBACK,
    EngineSpec,
    Folders,
    engine_specs,
    port_names,
)
from tokenworks.gateway.ports import ports_for
from tokenworks.gateway.served import Served, held
from tokenworks.gateway.supervisor import Supervisor
from tokenworks.operations.certificates import ensure_certificate
from tokenworks.operations.gateway_serve import (
    folders_of,
    gateway_program,
    publish,
    service_programs,
)
from tokenworks.plan.gateway import gateway_memory
from tokenworks.plan.types import Decided, Plan
from tokenworks.planning import plan_environment
from tokenworks.toolchain import Report
from tokenworks.workspace import Workspace

ENVIRONMENT: Final = "every-feature"
MOST_REQUESTS: Final = 16_384
"""More at a time than any measurement sends: no limit of the plan is to be met."""
PLENTY_SECONDS: Final = 600


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Something that answers chat requests over TLS."""

    name: str
    about: str
    address: str
    server_name: str
    authority: Path
    headers: Path
    model: str
    pids: tuple[int, ...]
    """Its own processes, without the engine behind it."""
    control: int
    """The control port of the engine that answers."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The engine that all subjects share, and where the benchmark keeps its files."""

    folder: Path
    supervisor: Supervisor
    engine_port: int
    engine_control: int
    model: str
    certificates: Path

    def headers(self, name: str, text: str) -> Path:
        """A file of header lines."""
        file = self.folder / f"{name}.headers"
        file.write_text(text, "utf-8")
        return file


@contextmanager
def bench(folder: Path, model: str) -> Iterator[Bench]:
    """The one engine behind every subject, as a process of its own."""
    supervisor = Supervisor(folder)
    supervisor.clear()
    certificates = folder / "tls"
    ensure_certificate(certificates, "localhost", datetime.datetime.now(datetime.UTC))
    port, control = free_port(), free_port()
    spec = EngineSpec(name="engine", model=model, max_batch_size=MOST_REQUESTS)
    engine = programs.engine(
        spec, folders_of(Workspace(folder), "bench"), {"engine": port, "engine-control": control}
    )
    try:
        supervisor.start(engine)
        yield Bench(
            folder=folder,
            supervisor=supervisor,
            engine_port=port,
            engine_control=control,
            model=model,
            certificates=certificates,
        )
    finally:
        supervisor.stop_all()


@contextmanager
def direct(it: Bench) -> Iterator[Subject]:
    """The same program as the engine, speaking TLS itself: nothing in between."""
    port, control = free_port(), free_port()
    program = dataclasses.replace(
        programs.engine(
            EngineSpec(name="direct", model=it.model, max_batch_size=MOST_REQUESTS),
            folders_of(Workspace(it.folder), "bench"),
            {"direct": port, "direct-control": control},
        ),
        unready=lambda: listens(port),
    )
    tls = (
        "--tls-certificate",
        it.certificates / "tls.crt",
        "--tls-key",
        it.certificates / "tls.key",
    )
    arguments = (*program.arguments, *map(str, tls))
    it.supervisor.start(dataclasses.replace(program, arguments=arguments))
    try:
        yield local_subject(
            it, "direct", "no gateway: the engine itself speaks TLS", port, control=control
        )
    finally:
        it.supervisor.stop("direct")


@contextmanager
def ours(it: Bench, workspace: Workspace, report: Report) -> Iterator[Subject]:
    """The gateway with every feature on, and limits that nobody meets, before the same engine."""
    plan = without_limits(plan_environment(workspace, ENVIRONMENT))
    folders = folders_of(workspace, ENVIRONMENT)
    with held(folders):
        served = _served(it, workspace, plan, folders, report)
        try:
            served.start()
            pid = served.supervisor.pid(GATEWAY)
            yield Subject(
                name="tokenworks",
                about="Envoy 1.39.3 with every feature on",
                address=f"{LOOPBACK}:{served.ports[GATEWAY]}",
                server_name=plan.gateway.hostname,
                authority=workspace.certificates(ENVIRONMENT) / "ca.crt",
                headers=folders.key(plan.gateway.tenants[0].name),
                model=plan.gateway.models[0].model,
                pids=(pid,) if pid else (),
                control=it.engine_control,
            )
        finally:
            served.stop()


def _served(
    it: Bench, workspace: Workspace, plan: Plan, folders: Folders, report: Report
) -> Served:
    """Envoy, the rate-limit service and its store; every engine is the benchmark's one."""
    names = port_names(plan)
    ports = ports_for(private_folder(folders.root), names)
    ports |= {spec.name: it.engine_port for spec in engine_specs(plan)}
    publish(workspace, plan, folders, ports, lambda _: None)
    service = service_programs(plan, folders, ports, report)
    return Served(
        environment=ENVIRONMENT,
        folders=folders,
        ports=ports,
        programs=(*service, gateway_program(plan, folders, ports)),
        supervisor=Supervisor(folders.root),
        say=lambda _: None,
    )


def without_limits(plan: Plan) -> Plan:
    """A plan with every feature as it is, and room for whatever is measured; budgets are wide."""
    because = "so that the benchmark meets no limit"
    gateway = plan.gateway
    models = [
        dataclasses.replace(each, max_concurrent_requests=MOST_REQUESTS) for each in gateway.models
    ]
    seconds = Decided(PLENTY_SECONDS, because)
    lifted = dataclasses.replace(
        gateway,
        models=tuple(models),
        max_request_seconds=seconds,
        stream_idle_seconds=seconds,
        memory_mib=gateway_memory(MOST_REQUESTS, gateway.max_request_body_bytes.value),
    )
    return dataclasses.replace(plan, gateway=lifted)


def local_subject(
    it: Bench, name: str, about: str, port: int, *, key: str = "", control: int = 0
) -> Subject:
    """A subject of the benchmark's own supervisor, under the name of its program."""
    pid = it.supervisor.pid(name.lower())
    return Subject(
        name=name,
        about=about,
        address=f"{LOOPBACK}:{port}",
        server_name="localhost",
        authority=it.certificates / "ca.crt",
        headers=it.headers(name, f"authorization: Bearer {key}\n" if key else ""),
        model=it.model,
        pids=(pid, *_children(pid)) if pid else (),
        control=control or it.engine_control,
    )


def _children(pid: int) -> tuple[int, ...]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return tuple(map(int, file.read_text().split())) if file.exists() else ()


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> str:
    """Why nobody can connect, or nothing when one can."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError as error:
        return f"does not listen on port {port}: {error}"
    return ""
