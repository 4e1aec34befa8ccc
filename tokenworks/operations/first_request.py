"""A first request to the gateway of a real node: as a tenant, over TLS, from this machine."""

from __future__ import annotations

import json
import shlex
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


def first_request(workspace: Workspace, plan: Plan, port: int) -> str:
    """A command that streams an answer from the first tenant's first model that really runs."""
    pool, gateway = plan.real_pool, plan.gateway
    running = [one.name for one in plan.models if pool and one.node_pool == pool.name]
    tenant = next(one for one in gateway.tenants if one.key_secrets)
    allowed = [name for name in running if not tenant.models or name in tenant.models]
    authority = workspace.certificates(plan.environment).resolve() / "ca.crt"
    messages = [{"role": "user", "content": "hello"}]
    body = json.dumps({"model": (allowed or running)[0], "messages": messages, "stream": True})
    host, header = gateway.hostname, key_file(workspace, plan.environment, tenant.name)
    return " \\\n  ".join(
        (
            f"curl --no-buffer https://{host}:{port}/v1/chat/completions",
            f"--resolve {host}:{port}:{LOOPBACK} --cacert {shlex.quote(str(authority))}",
            f"--header @{shlex.quote(str(header))}",
            f"--header 'content-type: application/json' --data {shlex.quote(body)}",
        )
    )
