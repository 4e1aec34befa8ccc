"""The rate-limit service and its store: budgets, settings and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tokenworks.plan.gateway_pods import STORE_DATA_MIB
from tokenworks.plan.gateway_types import GatewayPlan, RateLimitPlan
from tokenworks.render_admission import budgets_of
from tokenworks.templating import render

RATE_LIMIT_CONFIG_MOUNT: Final = "/etc/rate-limit/config"
"""Where the rate-limit service finds the budgets."""


def rate_limit_file(plan: GatewayPlan) -> str:
    """The configuration of ``envoyproxy/ratelimit``: each tenant's budgets of a minute."""
    tenants = [
        {"name": tenant.name, "budgets": budgets_of(tenant)}
        for tenant in plan.tenants
        if tenant.requests or tenant.tokens
    ]
    return render("gateway/ratelimit.yaml.j2", tenants=tenants)


def rate_limit_environment(plan: RateLimitPlan) -> dict[str, str]:
    """Settings of ``envoyproxy/ratelimit`` in its own pod; it takes all of them from there."""
    folder = Path(RATE_LIMIT_CONFIG_MOUNT)
    return {
        "PORT": str(plan.port),
        # Gateways ask over HTTP; the other two doors stay within the pod.
        "GRPC_HOST": "127.0.0.1",
        "DEBUG_HOST": "127.0.0.1",
        "BACKEND_TYPE": "redis",
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"{plan.store_host}:{plan.store_port}",
        # Below the time that gateways wait: who asks is told no, not left without an answer.
        "REDIS_TIMEOUT": f"{plan.timeout_milliseconds.value // 2}ms",
        "USE_STATSD": "false",
        "DISABLE_STATS": "true",
        "LOG_LEVEL": "warn",
        "RUNTIME_ROOT": str(folder.parent),
        "RUNTIME_SUBDIRECTORY": "",
        "RUNTIME_APPDIRECTORY": folder.name,
        "RUNTIME_WATCH_ROOT": "false",
        "RUNTIME_IGNOREDOTFILES": "true",
    }


def store_arguments(plan: RateLimitPlan) -> tuple[str, ...]:
    """Arguments of ``valkey-server``: counters of a minute in memory, and nothing on disk.

    Nothing secret is in it and NetworkPolicies let only the service in, so it asks for no password.
    """
    return (
        *("--port", str(plan.store_port), "--protected-mode", "no"),
        *("--save", "", "--appendonly", "no"),
        *("--maxmemory", f"{STORE_DATA_MIB}mb", "--maxmemory-policy", "volatile-ttl"),
    )
