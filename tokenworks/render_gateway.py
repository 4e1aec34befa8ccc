"""The gateway's files: what its plan decided, as Envoy and the rate-limit service read it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.errors import ConfigError, Problem
from tokenworks.plan.gateway import MODEL_LIST_PATH
from tokenworks.plan.gateway_pods import CALLER_CONNECTIONS, STORE_DATA_MIB
from tokenworks.plan.gateway_types import GatewayPlan, RateLimitPlan
from tokenworks.render_routes import (
    PASSED_OVER_HEADER,
    api_clusters,
    chain_clusters,
    engine_clusters,
    hop_clusters,
    hops,
    label,
    route_views,
)
from tokenworks.templating import render

CHAT_PATH: Final = "/v1/chat/completions"
"""The path whose requests can carry a cache salt."""

INVALID_BODY: Final = (
    "The request body must be one JSON object that names a model, in UTF-8 and without duplicate "
    "keys."
)
"""What is said of a body that is no strict JSON, by the route or by admission."""

MAX_KEY_BYTES: Final = 512
"""Longest API key that is hashed; a header may hold 60 kB, and hashing that is work."""

DRAIN_MINIMUM_SECONDS: Final = 15
"""How long a stopping gateway goes on accepting, until load balancers have seen failed probes."""

ACCOUNTING_TOKENS: Final = 16
"""A running stream is counted whenever it has grown by as many tokens; the rest at its end."""

TAIL_BYTES: Final = 512
"""How much of a chunk is looked at again with the next, since usage may be cut in two."""

LONGEST_EVENT_BYTES: Final = 65_536
"""An event that does not end within as many bytes is passed on as it comes."""

BYTES_PER_TOKEN: Final = 4
"""A token is about four characters of text; what a prompt reserves follows from its size."""

CLIENT_CA_FILE: Final = "ca.crt"
"""The file in the mount of its own that holds the authorities of callers' certificates."""

RATE_LIMIT_CONFIG_MOUNT: Final = "/etc/rate-limit/config"
"""Where the rate-limit service finds the budgets."""

FIRST_TOKEN_BUCKETS_MS: Final = (50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000)

_ENVOY_DIRECT_RESPONSE_BYTES: Final = 4096  # Envoy's default of max_direct_response_body_size_bytes
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_WORD: Final = re.compile(r"[!-~]+")

_BODY_HEADERS: Final = (
    ("x-llm-stream", "stream"),
    ("x-llm-max-tokens", "max_tokens"),
    ("x-llm-max-completion-tokens", "max_completion_tokens"),
    ("x-llm-n", "n"),
    ("x-llm-include-usage", "stream_options:include_usage"),
)
"""Members of a request that decide something, and the header that each is read into."""

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""Members by which a caller limits its answer. Engines know the first on every path; the second is
another name for it, of chats alone (``tensorrt_llm/serve/openai_protocol.py``)."""

_KEPT_HEADERS: Final = ("x-llm-stream",)
"""Those that later steps read as well."""


@dataclass(frozen=True, kw_only=True)
class GatewayMounts:
    """Where the gateway's container finds its files; each folder is the root of one volume.

    Envoy watches the roots, because the kubelet changes a ConfigMap or Secret by swapping a link
    there; a ``subPath`` mount is never changed and so would never be seen. ``trusted_ca`` is the
    bundle of the image, by which managed APIs are recognised.
    """

    config: str = "/etc/envoy"
    keys: str = "/etc/gateway-keys"
    tls: str = "/etc/gateway-tls"
    credentials: str = "/etc/gateway-credentials"
    client_ca: str = "/etc/gateway-client-ca"
    trusted_ca: str = "/etc/ssl/certs/ca-certificates.crt"


GATEWAY_MOUNTS: Final = GatewayMounts()

_GATEWAY_FILES: Final = (
    "envoy.yaml",
    "lds.yaml",
    "cds.yaml",
    "rds.yaml",
    "sds.yaml",
    "drain.sh",
)


def gateway_files(
    plan: GatewayPlan, *, listen_address: str, mounts: GatewayMounts = GATEWAY_MOUNTS
) -> dict[str, str]:
    """The gateway's ConfigMap: file name → text. Nothing in it is secret.

    ``listen_address`` is where both listeners bind: every address of a Pod, loopback elsewhere.
    """
    values = {
        "plan": plan,
        "mounts": mounts,
        "listen_address": listen_address,
        "max_connections": CALLER_CONNECTIONS,
        "drain_minimum_seconds": min(DRAIN_MINIMUM_SECONDS, plan.drain_seconds.value),
        "stats_tags": ("tenant", "model", "kind", "status", "route", "by"),
        "first_token_buckets_ms": FIRST_TOKEN_BUCKETS_MS,
        "replies": render("gateway/replies.yaml.j2").rstrip(),
        **_listener_values(plan),
        **_route_values(plan),
        "clusters": engine_clusters(plan),
        "hop_clusters": hop_clusters(plan),
        "api_clusters": api_clusters(plan),
        "chains": chain_clusters(plan),
        "rate_limit_services": [plan.rate_limit] if plan.rate_limit else [],
    }
    files = {name: render(f"gateway/{name}.j2", **values) for name in _GATEWAY_FILES}
    files["admission.yaml"] = _admission_file(plan)
    if plan.jwt:
        files["identity.yaml"] = render("gateway/identity.yaml.j2", jwt=plan.jwt)
    if plan.client_certificates:
        files["client_ca.yaml"] = render(
            "gateway/client_ca.yaml.j2", folder=mounts.client_ca, file=CLIENT_CA_FILE
        )
    return files


def _listener_values(plan: GatewayPlan) -> dict[str, Any]:
    limit = plan.max_request_body_bytes.value
    return {
        "body_too_large": f"A request body may hold at most {limit} bytes here.",
        "body_headers": _BODY_HEADERS,
        "identity_filters": ["identity"] if plan.jwt else [],
        "client_certificates": [plan.client_certificates] if plan.client_certificates else [],
        "proxy_protocols": ["proxy_protocol"] if plan.proxy_protocol else [],
        "hops": hops(plan, _body_edits()),
        "hop_log_lines": (
            {
                "later": False,
                "reason": "no step before it has a healthy engine",
            },
            {"later": True, "reason": "a step before it could not be reached or answered 503"},
        ),
    }


def _route_values(plan: GatewayPlan) -> dict[str, Any]:
    models = [model.model for model in plan.models]
    model_list = _model_list(models)
    model_not_found = f"This model is not served here. Models: {', '.join(models)}."
    return {
        "model_list_paths": [path for path in plan.allowed_paths if path == MODEL_LIST_PATH],
        "inference_paths": [path for path in plan.allowed_paths if path != MODEL_LIST_PATH],
        "model_list": model_list,
        "model_lists": [
            {"tenant": tenant.name, "text": _model_list(tenant.models)}
            for tenant in plan.tenants
            if tenant.models
        ],
        "model_not_found": model_not_found,
        "invalid_body": INVALID_BODY,
        "max_direct_response_bytes": max(
            _ENVOY_DIRECT_RESPONSE_BYTES,
            len(model_list.encode()),
            len(model_not_found.encode()),
            *(2048 + 2 * len(answer.text.encode()) for answer in plan.answers),
        ),
        "routes": route_views(plan),
        "passed_over_header": PASSED_OVER_HEADER,
    }


def _body_edits() -> str:
    return render("gateway/body.lua.j2")


def _admission_file(plan: GatewayPlan) -> str:
    tenants = [
        {
            "name": tenant.name,
            "isolated": tenant.isolated,
            "models": tenant.models,
            "default_max_tokens": tenant.default_max_tokens or 0,
            "budgets": _budgets(tenant.requests, tenant.tokens),
        }
        for tenant in plan.tenants
    ]
    source = render(
        "gateway/admission.lua.j2",
        body_edits=_body_edits(),
        budgets=_budget_part(plan),
        answers=render(
            "gateway/answers.lua.j2",
            accounting_tokens=ACCOUNTING_TOKENS,
            tail_bytes=TAIL_BYTES,
            longest_event_bytes=LONGEST_EVENT_BYTES,
        ),
        chat_path=CHAT_PATH,
        limit_headers=[(name, member) for name, member in _BODY_HEADERS if member in _LIMITS],
        invalid_body=INVALID_BODY,
        tenants=tenants,
        models=[
            {
                "model": model.model,
                "label": label(model.model),
                "longest_tokens": model.longest_tokens,
                "default_tokens": model.default_tokens,
            }
            for model in plan.models
        ],
        restricted_tenants=[tenant.name for tenant in plan.tenants if tenant.restricted],
        working_headers=[name for name, _ in _BODY_HEADERS if name not in _KEPT_HEADERS],
        bytes_per_token=BYTES_PER_TOKEN,
    )
    return render("gateway/admission.yaml.j2", source=source)


def _budget_part(plan: GatewayPlan) -> str:
    service = plan.rate_limit
    return render(
        "gateway/budgets.lua.j2",
        counters=plan.counters.value,
        timeout_milliseconds=service.timeout_milliseconds.value if service else 0,
        down_milliseconds=1000 * service.down_seconds.value if service else 0,
    )


def _budgets(requests: Any, tokens: Any) -> list[tuple[str, Any]]:
    return [(kind, one) for kind, one in (("requests", requests), ("tokens", tokens)) if one]


def rate_limit_file(plan: GatewayPlan) -> str:
    """The configuration of ``envoyproxy/ratelimit``: each tenant's budgets of a minute."""
    tenants = [
        {"name": tenant.name, "budgets": _budgets(tenant.requests, tenant.tokens)}
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


def _model_list(models: Sequence[str]) -> str:
    """The answer to ``GET /v1/models``; ``created`` is 0 because equal plans give equal bytes."""
    data = [
        {"id": model, "object": "model", "created": 0, "owned_by": "tokenworks"} for model in models
    ]
    return json.dumps({"object": "list", "data": data})


def key_hash(key: str) -> str:
    """The SHA-256 of an API key, in hexadecimal: all that is ever stored of it.

    There is no salt and no stretching, so keys must be random: 128 bits or more, not words.
    """
    return hashlib.sha256(key.encode()).hexdigest()


def gateway_credentials_files(credentials: Mapping[str, str]) -> dict[str, str]:
    """A file for each managed API in the gateway's Secret, from its key. Secret as a whole."""
    return {
        f"{api}.yaml": render("gateway/credential.yaml.j2", api=api, credential=credential)
        for api, credential in sorted(credentials.items())
    }


def gateway_keys_file(hashes: Mapping[str, Sequence[str]]) -> str:
    """``keys.yaml`` for the gateway's Secret: tenant → ``key_hash`` of each of its keys.

    Raises ``ConfigError`` for what is no hash, for a hash of two tenants, and for a tenant whose
    name no header can carry; never repeats what was given, which could be a key.
    """
    problems = [*_tenant_problems(hashes), *_hash_problems(hashes)]
    if problems:
        raise ConfigError(problems)
    tenant_of_hash = sorted((hash_, tenant) for tenant in hashes for hash_ in hashes[tenant])
    source = render(
        "gateway/api_keys.lua.j2", max_key_bytes=MAX_KEY_BYTES, tenant_of_hash=tenant_of_hash
    )
    return render("gateway/keys.yaml.j2", source=source)


def _tenant_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    return [
        Problem(
            key="tenants",
            given=json.dumps(tenant),
            reason="cannot be carried in a header",
            remedy="name tenants in printable ASCII without spaces",
        )
        for tenant in hashes
        if not _HEADER_WORD.fullmatch(tenant)
    ]


def _hash_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    problems: list[Problem] = []
    owner: dict[str, str] = {}
    for tenant, of_tenant in hashes.items():
        for index, hash_ in enumerate(of_tenant):
            key = f"tenants.{tenant}.keys[{index}]"
            if not _HASH.fullmatch(hash_):
                reason = "is no SHA-256 in lower-case hexadecimal"
                problems.append(Problem(key=key, reason=reason, remedy="give key_hash(key)"))
            elif owner.setdefault(hash_, tenant) != tenant:
                reason = f"is also a key of tenant {owner[hash_]}"
                problems.append(Problem(key=key, reason=reason, remedy="give each its own key"))
    return problems


def envoy_arguments(
    plan: GatewayPlan, *, mounts: GatewayMounts = GATEWAY_MOUNTS
) -> tuple[str, ...]:
    """Envoy's command line; fits a read-only file system and any user.

    There are as many workers as the plan gives processors: Envoy would otherwise start one thread
    for each processor of the node. Levels below ``warning`` are never asked for, because
    Envoy's debug log prints API keys.
    """
    return (
        "--config-path",
        f"{mounts.config}/envoy.yaml",
        "--log-level",
        "warning",
        "--concurrency",
        str(plan.workers.value),
        # A misspelt field in a watched file is refused and the old file stays in force.
        "--reject-unknown-dynamic-fields",
        # Hot restart needs shared memory; a Pod is replaced instead.
        "--disable-hot-restart",
        # How long streams may go on after a listener was changed, and when the Pod stops.
        "--drain-time-s",
        str(plan.drain_seconds.value),
        "--drain-strategy",
        "immediate",
        # Access log lines leave within a second, not in ten.
        "--file-flush-interval-msec",
        "1000",
    )


def drain_command(mounts: GatewayMounts = GATEWAY_MOUNTS) -> tuple[str, ...]:
    """What the container runs before it is stopped (``preStop``), for ``drain_seconds`` at most."""
    return ("bash", f"{mounts.config}/drain.sh")
