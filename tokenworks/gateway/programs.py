"""The processes of a gateway on loopback: how each is started and how it shows that it is ready."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tokenworks.gateway.layout import (
    GATEWAY,
    LOOPBACK,
    RATE_LIMIT,
    STORE,
    EngineSpec,
    Folders,
)
from tokenworks.gateway.supervisor import Program
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.render_gateway import envoy_arguments

_ANSWER_SECONDS: Final = 2.0
_BARE: Final = {"PATH": os.defpath}
"""Nothing of the caller's environment: variables are settings to the rate-limit service."""

_IMPORT_ROOT: Final = Path(__file__).resolve().parents[2]

FIRST_TOKEN_SECONDS: Final = 0.3
INTER_TOKEN_SECONDS: Final = 0.05
OUTPUT_TOKENS: Final = 40
"""Slow enough that people see a stream stream."""


def store(
    executable: Path, folder: Path, ports: Mapping[str, int], production: tuple[str, ...] = ()
) -> Program:
    """Valkey, in memory only; ``production`` are its arguments in a pod, and addresses are ours."""
    port = ports[STORE]
    return Program(
        name=STORE,
        executable=executable,
        arguments=(
            *production,  # of an option that is given twice the last one holds
            *("--bind", LOOPBACK, "--port", str(port), "--dir", str(folder)),
            *("--save", "", "--appendonly", "no", "--daemonize", "no"),
            # It would write its address over the name by which an earlier run's is found.
            *("--set-proc-title", "no"),
        ),
        environ=_BARE,
        unready=lambda: _says(port, b"PING\r\n", b"+PONG\r\n"),
        port=port,
        about="Valkey, which holds the budgets",
    )


def rate_limit(
    executable: Path,
    budgets: Path,
    ports: Mapping[str, int],
    production: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """envoyproxy/ratelimit over that store; its budgets are read again when they change.

    ``production`` are its settings in a pod; addresses and folders are those of here.
    """
    http_port = ports[f"{RATE_LIMIT}-http"]
    environ = {
        **_BARE,
        **production,
        "HOST": LOOPBACK,
        "PORT": str(http_port),
        "GRPC_HOST": LOOPBACK,
        "GRPC_PORT": str(ports[f"{RATE_LIMIT}-grpc"]),
        "DEBUG_HOST": LOOPBACK,
        "DEBUG_PORT": str(ports[f"{RATE_LIMIT}-debug"]),
        "BACKEND_TYPE": "redis",
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"{LOOPBACK}:{ports[STORE]}",
        "USE_STATSD": "false",
        "DISABLE_STATS": "true",
        "LOG_LEVEL": "warn",
        "RUNTIME_ROOT": str(budgets.parent),
        "RUNTIME_SUBDIRECTORY": "",
        "RUNTIME_APPDIRECTORY": budgets.name,
        "RUNTIME_WATCH_ROOT": "false",
        "RUNTIME_IGNOREDOTFILES": "true",
    }
    return Program(
        name=RATE_LIMIT,
        executable=executable,
        arguments=(),
        environ=environ,
        unready=lambda: _answers(http_port, "/healthcheck"),
        port=http_port,
        about="envoyproxy/ratelimit, which all gateways ask",
    )


def engine(spec: EngineSpec, folders: Folders, ports: Mapping[str, int]) -> Program:
    """One simulated engine."""
    options = {
        "model": spec.model,
        "name": spec.name,
        "port": ports[spec.name],
        "control-port": ports[f"{spec.name}-control"],
        "max-batch-size": spec.max_batch_size,
        "first-token-seconds": FIRST_TOKEN_SECONDS,
        "inter-token-seconds": INTER_TOKEN_SECONDS,
        "output-tokens": OUTPUT_TOKENS,
    }
    trust = None
    if spec.api_host:
        folder = folders.api(spec.name)
        options |= {"tls-certificate": folder / "tls.crt", "tls-key": folder / "tls.key"}
        trust = ssl.create_default_context(cafile=folder / "ca.crt")
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return Program(
        name=spec.name,
        executable=Path(sys.executable),
        arguments=("-m", "tokenworks.gateway.simulated_engine", *arguments),
        # Started by a link elsewhere, Python does not find a virtual environment; none is needed.
        environ={**_BARE, "PYTHONPATH": str(_IMPORT_ROOT)},
        unready=lambda: _answers(ports[spec.name], "/health", trust),
        port=ports[spec.name],
        about=f"managed API {spec.api_host}" if spec.api_host else f"engine of {spec.model}",
    )


def gateway(executable: Path, plan: GatewayPlan, folders: Folders) -> Program:
    """Envoy on the rendered files; ``plan`` is the one with the ports of this machine."""
    return Program(
        name=GATEWAY,
        executable=executable,
        arguments=envoy_arguments(plan, mounts=folders.mounts),
        environ=_BARE,
        unready=lambda: _answers(plan.readiness_port, "/ready"),
        port=plan.tls_port,
        about=f"Envoy for https://{plan.hostname}",
    )


def _says(port: int, question: bytes, answer: bytes) -> str:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(question)
            said = connection.recv(len(answer))
    except OSError as error:
        return f"does not answer on port {port}: {error}"
    return "" if said == answer else f"says {said!r} on port {port}"


def _answers(port: int, path: str, trust: ssl.SSLContext | None = None) -> str:
    try:
        connection = _connect(port, trust)
        try:
            connection.request("GET", path)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer on port {port}: {error}"
    return "" if status == http.client.OK else f"answers {status} on {path}"


def _connect(port: int, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if trust is None:
        return http.client.HTTPConnection(LOOPBACK, port, timeout=_ANSWER_SECONDS)
    return http.client.HTTPSConnection(LOOPBACK, port, timeout=_ANSWER_SECONDS, context=trust)
