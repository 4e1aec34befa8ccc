"""A first request to the gateway of a real node: as a tenant, over TLS, from this machine."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from tokenworks.files import private_folder, write_whole
from tokenworks.operations.session import Session
from tokenworks.plan.types import Plan
from tokenworks.workspace import Workspace, stack_name

LOOPBACK = "127.0.0.1"


def key_file(workspace: Workspace, environment: str, tenant: str) -> Path:
    """The file with the header that a tenant sends; only its owner may read it."""
    return workspace.machine.resolve() / environment / "keys" / tenant


def write_key_files(session: Session, plan: Plan) -> None:
    """Write each tenant's first key as the header that carries it, for curl to read."""
    stack = stack_name(plan.environment, "serving")
    for tenant in plan.gateway.tenants:
        if not tenant.key_secrets:
            continue
        said = session.stacks.pulumi("config", "get", tenant.key_secrets[0], "--stack", stack)
        file = key_file(session.workspace, plan.environment, tenant.name)
        private_folder(file.parent)
        write_whole(file, f"authorization: Bearer {said.stdout.strip()}\n")


@dataclass(frozen=True, kw_only=True)
class Asker:
    """A tenant with a key, and a model that it may use and that really runs."""

    tenant: str
    model: str


def askers(plan: Plan) -> tuple[Asker, ...]:
    """Everybody who gets an answer from an engine with what lies on this machine."""
    if _wants_certificates(plan):
        return ()
    return tuple(
        Asker(tenant=tenant.name, model=model)
        for tenant in plan.gateway.tenants
        for model in _running(plan)
        if tenant.key_secrets and (not tenant.models or model in tenant.models)
    )


def why_nobody_asks(plan: Plan) -> str:
    """Why there are no askers: the first thing that is lacking."""
    if _wants_certificates(plan):
        return "the gateway wants client certificates, and this machine has none"
    if not _running(plan):
        return "no model is on the node that really runs"
    if not any(tenant.key_secrets for tenant in plan.gateway.tenants):
        return "no tenant has an API key, all come with tokens of an identity provider"
    return f"no tenant with an API key may use {' or '.join(_running(plan))}"


def _wants_certificates(plan: Plan) -> bool:
    wanted = plan.gateway.client_certificates
    return wanted is not None and wanted.required


def _running(plan: Plan) -> tuple[str, ...]:
    """The models whose engines run on this machine."""
    pool = plan.real_pool
    return tuple(one.name for one in plan.models if pool and one.node_pool == pool.name)


def first_request(workspace: Workspace, plan: Plan, asker: Asker, port: int) -> str:
    """A command that streams an answer from a model that really runs."""
    gateway = plan.gateway
    authority = workspace.certificates(plan.environment).resolve() / "ca.crt"
    messages = [{"role": "user", "content": "hello"}]
    body = json.dumps({"model": asker.model, "messages": messages, "stream": True})
    host, header = gateway.hostname, key_file(workspace, plan.environment, asker.tenant)
    return " \\\n  ".join(
        (
            f"curl --no-buffer https://{host}:{port}/v1/chat/completions",
            f"--resolve {host}:{port}:{LOOPBACK} --cacert {shlex.quote(str(authority))}",
            f"--header @{shlex.quote(str(header))}",
            f"--header 'content-type: application/json' --data {shlex.quote(body)}",
        )
    )
