"""What is measured: each subject is an address with a certificate, and the processes behind it."""

from __future__ import annotations

import dataclasses
import datetime
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
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
from tokenworks.gateway.supervisor import Program, Supervisor
from tokenworks.operations.certificates import ensure_certificate
from tokenworks.operations.gateway_serve import (
    folders_of,
    gateway_program,
    publish,
    service_programs,
)
from tokenworks.plan.types import Decided, Plan
from tokenworks.planning import plan_environment
from tokenworks.toolchain import Report
from tokenworks.toolchain.cache import Cache
from tokenworks.workspace import Workspace

ENVIRONMENT: Final = "every-feature"
LITELLM: Final = "1.108.7"
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
        yield _local(
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
    )
    return dataclasses.replace(plan, gateway=lifted)


@contextmanager
def nginx(it: Bench) -> Iterator[Subject]:
    """TLS and unbuffered passing on, nothing else; one worker, as our Envoy has.

    Raises:
        OperationError: there is no nginx on PATH.
    """
    executable = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if executable is None:
        raise OperationError(
            "nginx", reason="is not on PATH", remedy="apt-get install nginx-light, to compare"
        )
    port = free_port()
    config = it.folder / "nginx.conf"
    config.write_text(
        NGINX.format(folder=it.folder, port=port, engine=it.engine_port, tls=it.certificates)
    )
    program = Program(
        name="nginx",
        executable=Path(executable),
        arguments=("-p", str(it.folder), "-c", str(config), "-e", "stderr"),
        environ={"PATH": os.defpath},
        unready=lambda: listens(port),
        port=port,
        about="nginx",
    )
    it.supervisor.start(program)
    try:
        yield _local(it, "nginx", f"TLS only, {_version_of(executable)}", port)
    finally:
        it.supervisor.stop("nginx")


NGINX: Final = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 18000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  keepalive_requests 1000000;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; keepalive_timeout 4s; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {tls}/tls.crt;
    ssl_certificate_key {tls}/tls.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


@contextmanager
def litellm(it: Bench, say: Callable[[str], None]) -> Iterator[Subject]:
    """The LiteLLM proxy with one worker and a master key, from PyPI into the cache.

    Raises:
        OperationError: it cannot be installed or does not start.
    """
    place = _install_litellm(say)
    port = free_port()
    key = "sk-benchmark-on-loopback"
    config = it.folder / "litellm.yaml"
    config.write_text(LITELLM_CONFIG.format(model=it.model, engine=it.engine_port, key=key))
    tls = ("--ssl_keyfile_path", it.certificates / "tls.key")
    chain = ("--ssl_certfile_path", it.certificates / "tls.crt")
    options = ("--config", config, "--host", LOOPBACK, "--port", port, "--num_workers", 1)
    program = Program(
        name="litellm",
        executable=place / "bin" / "python",
        arguments=(str(place / "bin" / "litellm"), *map(str, (*options, *tls, *chain))),
        environ=_litellm_environ(place, it.folder),
        unready=lambda: listens(port),
        port=port,
        about="LiteLLM",
        # Its imports alone take ten seconds on a machine at rest.
        ready_seconds=180,
    )
    it.supervisor.start(program)
    try:
        yield _local(it, "LiteLLM", f"proxy {LITELLM}, one worker", port, key=key)
    finally:
        it.supervisor.stop("litellm")


LITELLM_CONFIG: Final = """\
model_list:
- model_name: {model}
  litellm_params: {{model: openai/{model}, api_base: "http://127.0.0.1:{engine}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
litellm_settings: {{telemetry: false, num_retries: 0}}
"""


def _litellm_environ(place: Path, folder: Path) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        # Started by a link elsewhere, Python does not see that it is a virtual environment's.
        "PYTHONPATH": str(next((place / "lib").glob("python3*/site-packages"))),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOG": "ERROR",
    }


def _install_litellm(say: Callable[[str], None]) -> Path:
    place = Cache.of(os.environ).root / "benchmarks" / f"litellm-{LITELLM}"
    if (place / "installed").exists():
        return place
    say(f"installing litellm[proxy] {LITELLM} into {place}")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [str(place / "bin" / "pip"), "install", "--quiet", f"litellm[proxy]=={LITELLM}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OperationError(
                f"LiteLLM {LITELLM}",
                reason=(done.stderr.strip().splitlines() or ["pip failed"])[-1],
                remedy="see that PyPI can be reached, or do without this comparison",
            )
    (place / "installed").touch()
    return place


def _local(
    it: Bench, name: str, about: str, port: int, *, key: str = "", control: int = 0
) -> Subject:
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


def _version_of(nginx_path: str) -> str:
    said = subprocess.run([nginx_path, "-v"], capture_output=True, text=True, check=False)
    return said.stderr.strip().rpartition(" ")[2]
