"""The gateway's share of a plan: one route for each model, limits, timeouts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.errors import Problem
from tokenworks.naming import engine_host
from tokenworks.plan.types import Decided, GatewayPlan, GatewayRoute, Image, TenantPlan

IMAGE_REPOSITORY = "docker.io/envoyproxy/envoy"
IMAGE_TAG = "v1.39.3"

TLS_PORT = 8443
ADMIN_PORT = 9901
READINESS_PORT = 9902

BYTES_PER_TOKEN = 8
"""Generous for JSON: a token is about four characters, which escapes and other scripts double."""
BODY_OVERHEAD_BYTES = 64 * 1024
STOP_MARGIN_SECONDS = 15
WORKERS = 1
BASE_MEMORY_MIB = 256
"""Allowance for Envoy itself, its statistics and ten thousand idle connections."""
ENDPOINT_REMOVAL_SECONDS = 15
"""How long clients may still be sent to a pod that is on its way out."""


def gateway_problems(loaded: LoadedEnvironment, lock: Lock) -> Iterable[Problem]:
    """What forbids a gateway, which today is only an image without a digest."""
    if lock.find(IMAGE_REPOSITORY, IMAGE_TAG) is None:
        yield loaded.source.problem(
            ("gateway",),
            given=f"{IMAGE_REPOSITORY}:{IMAGE_TAG}",
            reason="has no digest in images.lock",
            remedy="add the tag with its digest and where it was read",
        )


def gateway_plan(loaded: LoadedEnvironment, lock: Lock, admitted: Mapping[str, int]) -> GatewayPlan:
    """The gateway of an environment whose problems were ruled out before.

    ``admitted`` is for each model how many requests may be inside at once, running or waiting.
    """
    section, models = loaded.environment.gateway, loaded.environment.models
    locked = lock.find(IMAGE_REPOSITORY, IMAGE_TAG)
    assert locked is not None  # noqa: S101  (gateway_problems has reported it)
    longest = max(model.max_model_len_tokens for model in models)
    body_bytes = BODY_OVERHEAD_BYTES + BYTES_PER_TOKEN * longest
    seconds = section.max_request_seconds
    return GatewayPlan(
        hostname=section.hostname,
        image=Image(repository=locked.repository, tag=locked.tag, digest=locked.digest),
        replicas=Decided(section.replicas, "asked for; two survive the loss of a node"),
        tenants=tuple(
            TenantPlan(
                name=tenant.name,
                key_secrets=tuple(key.pulumi_secret for key in tenant.api_keys),
            )
            for tenant in section.tenants
        ),
        routes=tuple(
            GatewayRoute(
                model=model.name,
                host=engine_host(model.name),
                port=tensorrt_llm.PORT,
                max_concurrent_requests=admitted[model.name],
            )
            for model in models
        ),
        allowed_paths=tensorrt_llm.SERVED_PATHS,
        max_request_body_bytes=Decided(
            body_bytes,
            f"{BYTES_PER_TOKEN} bytes for each of the {longest} tokens of the longest model, and "
            f"{BODY_OVERHEAD_BYTES} for the rest of the request",
        ),
        max_request_seconds=Decided(seconds, "the longest request that is promised"),
        stream_idle_seconds=Decided(
            seconds,
            "a prompt may wait and be read for as long as the whole request may take before its "
            "first token; a shorter idle limit would cut it",
        ),
        tls_port=TLS_PORT,
        admin_port=ADMIN_PORT,
        readiness_port=READINESS_PORT,
        drain_seconds=Decided(
            seconds + ENDPOINT_REMOVAL_SECONDS,
            f"{ENDPOINT_REMOVAL_SECONDS} s until no client is sent here, then the longest request",
        ),
        termination_grace_seconds=Decided(
            seconds + ENDPOINT_REMOVAL_SECONDS + STOP_MARGIN_SECONDS,
            f"draining, and {STOP_MARGIN_SECONDS} s for the last answers and Envoy's own end",
        ),
        workers=Decided(WORKERS, "one processor carries 2,500 requests a second with every filter"),
        memory_mib=_memory(sum(admitted.values()), body_bytes),
    )


def _memory(requests: int, body_bytes: int) -> Decided[int]:
    """Memory of one gateway pod: Envoy, and every planned request buffered twice."""
    buffers = math.ceil(requests * 2 * body_bytes / 2**20)
    return Decided(
        BASE_MEMORY_MIB + buffers,
        f"{BASE_MEMORY_MIB} for Envoy, {buffers} for two copies of each of {requests} request "
        "bodies of the largest size",
    )
