"""The gateway's files and command lines: what its plan decided, as Envoy reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.plan.gateway import (
    HEAP_FULL_SHARE,
    HEAP_RESET_SHARES,
    HEAP_SHRINK_SHARE,
    MODEL_LIST_PATH,
    NOT_HEAP_MIB,
)
from tokenworks.plan.gateway_pods import ALIVE_PATH, CALLER_CONNECTIONS
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.render_admission import (
    BODY_HEADERS,
    INVALID_BODY,
    admission_file,
    working_headers,
)
from tokenworks.render_routes import (
    PASSED_OVER_HEADER,
    api_clusters,
    chain_clusters,
    engine_clusters,
    hop_clusters,
    hops,
    route_views,
)
from tokenworks.templating import render

DRAIN_MINIMUM_SECONDS: Final = 15
"""How long a stopping gateway goes on accepting, until load balancers have seen failed probes."""

CLIENT_CA_FILE: Final = "ca.crt"
"""The file in the mount of its own that holds the authorities of callers' certificates."""

FIRST_TOKEN_BUCKETS_MS: Final = (50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000)

_ENVOY_DIRECT_RESPONSE_BYTES: Final = 4096  # Envoy's default of max_direct_response_body_size_bytes


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

NETWORK_SECONDS: Final = 10
"""How long a new gateway waits for an engine that lets it in."""
_GATEWAY_FILES: Final = (
    "envoy.yaml",
    "lds.yaml",
    "cds.yaml",
    "rds.yaml",
    "sds.yaml",
    "drain.sh",
    "start.sh",
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
        "alive_path": ALIVE_PATH,
        "heap_shrink_share": HEAP_SHRINK_SHARE,
        "heap_full_share": HEAP_FULL_SHARE,
        "heap_reset_shares": HEAP_RESET_SHARES,
        "most_heap_bytes": (plan.memory_mib.value - NOT_HEAP_MIB) * 2**20,
        "network_seconds": NETWORK_SECONDS,
        "drain_minimum_seconds": min(DRAIN_MINIMUM_SECONDS, plan.drain_seconds.value),
        "stats_tags": ("tenant", "model", "kind", "status", "route", "by", "error_code"),
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
    files["admission.yaml"] = admission_file(plan, _body_edits())
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
        "body_headers": BODY_HEADERS,
        "identity_filters": ["identity"] if plan.jwt else [],
        "client_certificates": [plan.client_certificates] if plan.client_certificates else [],
        "proxy_protocols": ["proxy_protocol"] if plan.proxy_protocol else [],
        "hops": hops(plan, _body_edits()),
        "hop_log_lines": (
            {
                "later": False,
                "reason": "its route leads here first, or no step before it has a healthy engine",
            },
            {
                "later": True,
                "reason": "whoever was asked before could not be reached or had no place left",
            },
        ),
    }


def _route_values(plan: GatewayPlan) -> dict[str, Any]:
    models = [model.model for model in plan.models]
    model_list = _model_list(models)
    model_not_found = _model_not_found(models)
    return {
        "model_list_paths": [path for path in plan.allowed_paths if path == MODEL_LIST_PATH],
        "inference_paths": [path for path in plan.allowed_paths if path != MODEL_LIST_PATH],
        "model_list": model_list,
        "model_lists": [
            {
                "tenant": tenant.name,
                "text": _model_list(tenant.models),
                "not_found": _model_not_found(tenant.models),
            }
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
        "working_headers": working_headers(),
        "routes": route_views(plan),
        "passed_over_header": PASSED_OVER_HEADER,
    }


def _body_edits() -> str:
    return render("gateway/body.lua.j2")


def _model_list(models: Sequence[str]) -> str:
    """The answer to ``GET /v1/models``; ``created`` is 0 because equal plans give equal bytes."""
    data = [
        {"id": model, "object": "model", "created": 0, "owned_by": "tokenworks"} for model in models
    ]
    return json.dumps({"object": "list", "data": data})


def _model_not_found(models: Sequence[str]) -> str:
    return f"This model is not served here. Models: {', '.join(models)}."


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


def start_command(mounts: GatewayMounts = GATEWAY_MOUNTS) -> tuple[str, ...]:
    """What starts Envoy in a pod; its arguments follow.

    It is a file of the ConfigMap, so that another model changes no pod.
    """
    return ("bash", f"{mounts.config}/start.sh")


def drain_command(mounts: GatewayMounts = GATEWAY_MOUNTS) -> tuple[str, ...]:
    """What the container runs before it is stopped (``preStop``), for ``drain_seconds`` at most."""
    return ("bash", f"{mounts.config}/drain.sh")
