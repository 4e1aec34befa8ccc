"""The gateway's share of a plan: tenants, routes, limits, timeouts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.gateway import Gateway
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.environment.sections import Model
from tokenworks.naming import (
    RATE_LIMIT_SERVICE,
    RATE_LIMIT_STORE_SERVICE,
    engine_host,
    gateway_host,
)
from tokenworks.plan.gateway_budgets import Ways, tenant_plan
from tokenworks.plan.gateway_images import ENVOY, RATE_LIMIT, STORE
from tokenworks.plan.gateway_routes import gateway_routes, static_answers
from tokenworks.plan.gateway_types import (
    ClientCertificates,
    GatewayPlan,
    HealthProbe,
    Issuer,
    JwtIssuer,
    ManagedApi,
    ModelEngines,
    RateLimitPlan,
    TenantPlan,
)
from tokenworks.plan.types import Decided

MODEL_LIST_PATH = "/v1/models"
"""The one path that the gateway answers itself: which models there are."""

TLS_PORT = 8443
ADMIN_PORT = 9901
READINESS_PORT = 9902
RATE_LIMIT_PORT = 8080
STORE_PORT = 6379
API_PORT = 443

HOURS = 24
BYTES_PER_TOKEN = 8
"""Generous for JSON: a token is about four characters, which escapes and other scripts double."""
BODY_OVERHEAD_BYTES = 64 * 1024
STOP_MARGIN_SECONDS = 15
WORKERS = 1
NOT_HEAP_MIB = 64
"""What Envoy takes beside its heap: 66 MiB of 1.39.3 are resident when it has just started."""
BASE_HEAP_MIB = 192
"""Allowance for Envoy's statistics and configuration, and for idle connections."""
STREAM_KIB = 80
"""What a stream takes that is held, with its connections and every feature on: 5,000 of them took
463 MiB (`python -m benchmarks.gateway`), 66 of which it had before."""
HEAP_SHRINK_SHARE = 0.75
"""Of its heap, from which share on a gateway gives freed memory back."""
HEAP_FULL_SHARE = 0.8
"""And from which it lets no more requests in."""
HEAP_RESET_SHARES = (0.82, 0.92)
"""And between which it ends the requests that hold most: the first of them, and all."""
ENDPOINT_REMOVAL_SECONDS = 15
"""How long clients may still be sent to a pod that is on its way out."""
LEAST_STREAMS_PER_CONNECTION = 128
DEFAULT_TOKENS = 1024
"""What an answer reserves whose caller states no limit, where no traffic is given."""
PROBE_INTERVAL_SECONDS = 10
PROBE_TIMEOUT_SECONDS = 30
PROBE_FAILURES = 2
RATE_LIMIT_REPLICAS = 2
RATE_LIMIT_TIMEOUT_MILLISECONDS = 250
RATE_LIMIT_DOWN_SECONDS = 1
LEAST_QUESTIONS = 1024
"""Envoy's default for connections to one cluster, below which nothing would be saved."""


class _Callers(TypedDict):
    """Who may call."""

    tenants: tuple[TenantPlan, ...]
    jwt: JwtIssuer | None
    client_certificates: ClientCertificates | None
    counters: Decided[int]


class _Limits(TypedDict):
    """What one request, and one connection, may be."""

    allowed_paths: tuple[str, ...]
    max_request_body_bytes: Decided[int]
    max_request_seconds: Decided[int]
    stream_idle_seconds: Decided[int]
    max_streams_per_connection: Decided[int]


class _Process(TypedDict):
    """What one gateway takes from its node, where it listens, and how it ends."""

    workers: Decided[int]
    memory_mib: Decided[int]
    tls_port: int
    admin_port: int
    readiness_port: int
    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]


def gateway_plan(loaded: LoadedEnvironment, lock: Lock, admitted: Mapping[str, int]) -> GatewayPlan:
    """The gateway of an environment whose problems were ruled out before.

    ``admitted`` is for each model how many requests may be inside at once, running or waiting.
    """
    section, models = loaded.environment.gateway, loaded.environment.models
    longest = max(model.max_model_len_tokens for model in models)
    body_bytes = BODY_OVERHEAD_BYTES + BYTES_PER_TOKEN * longest
    requests = sum(admitted.values())
    engines = tuple(_engines(model, admitted[model.name]) for model in models)
    ways = Ways(
        models=engines,
        apis=_apis(section),
        routes=gateway_routes(section, tuple(model.name for model in models)),
    )
    return GatewayPlan(
        hostname=section.hostname,
        image=ENVOY.locked(lock),
        proxy_protocol=section.proxy_protocol,
        issuer=_issuer(section),
        replicas=Decided(section.replicas, "asked for; two survive the loss of a node"),
        models=engines,
        apis=ways.apis,
        answers=static_answers(section),
        routes=ways.routes,
        rate_limit=_rate_limit(section, lock, requests),
        **_callers(loaded, ways),
        **_limits(section, longest, body_bytes, requests),
        **_process(section, body_bytes, requests + _elsewhere(section)),
    )


def _callers(loaded: LoadedEnvironment, ways: Ways) -> _Callers:
    section = loaded.environment.gateway
    counters = section.replicas * WORKERS
    return {
        "tenants": tuple(
            tenant_plan(tenant, ways, counters=counters, replicas=section.replicas)
            for tenant in section.tenants
        ),
        "jwt": _jwt(loaded),
        "client_certificates": _client_certificates(loaded),
        "counters": Decided(
            counters, f"{section.replicas} gateways of {WORKERS} worker each keep count"
        ),
    }


def _limits(section: Gateway, longest: int, body_bytes: int, requests: int) -> _Limits:
    seconds = section.max_request_seconds
    return {
        "allowed_paths": (MODEL_LIST_PATH, *tensorrt_llm.SERVED_PATHS),
        "max_request_body_bytes": Decided(
            body_bytes,
            f"{BYTES_PER_TOKEN} bytes for each of the {longest} tokens of the longest model, and "
            f"{BODY_OVERHEAD_BYTES} for the rest of the request",
        ),
        "max_request_seconds": Decided(seconds, "the longest request that is promised"),
        "stream_idle_seconds": Decided(
            seconds,
            "a prompt may wait and be read for as long as the whole request may take before its "
            "first token; a shorter idle limit would cut it",
        ),
        "max_streams_per_connection": _streams(requests),
    }


def _process(section: Gateway, body_bytes: int, requests: int) -> _Process:
    drain = section.max_request_seconds + ENDPOINT_REMOVAL_SECONDS
    return {
        "workers": Decided(WORKERS, "one processor carries thousands of requests a second"),
        "memory_mib": gateway_memory(requests, body_bytes),
        "tls_port": TLS_PORT,
        "admin_port": ADMIN_PORT,
        "readiness_port": READINESS_PORT,
        "drain_seconds": Decided(
            drain,
            f"{ENDPOINT_REMOVAL_SECONDS} s until no client is sent here, then the longest request",
        ),
        "termination_grace_seconds": Decided(
            drain + STOP_MARGIN_SECONDS,
            f"draining, and {STOP_MARGIN_SECONDS} s for the last answers and Envoy's own end",
        ),
    }


def _engines(model: Model, admitted: int) -> ModelEngines:
    stated = model.traffic.output_tokens if model.traffic else DEFAULT_TOKENS
    return ModelEngines(
        model=model.name,
        host=engine_host(model.name),
        port=tensorrt_llm.PORT,
        max_concurrent_requests=admitted,
        longest_tokens=model.max_model_len_tokens,
        default_tokens=min(stated, model.max_model_len_tokens),
        probe=Decided(
            HealthProbe(
                path=tensorrt_llm.INFERENCE_PATH,
                interval_seconds=PROBE_INTERVAL_SECONDS,
                timeout_seconds=PROBE_TIMEOUT_SECONDS,
                failure_threshold=PROBE_FAILURES,
            ),
            "one token from the engine itself; it queues behind callers, so it may take long "
            "without meaning that the engine is broken",
        ),
    )


def _apis(section: Gateway) -> tuple[ManagedApi, ...]:
    return tuple(
        ManagedApi(
            name=api.name,
            host=api.host,
            port=API_PORT,
            base_path=api.base_path,
            model=api.model,
            credential_secret=api.credential.pulumi_secret,
            max_concurrent_requests=api.max_concurrent_requests,
        )
        for api in section.apis
    )


def _jwt(loaded: LoadedEnvironment) -> JwtIssuer | None:
    jwt = loaded.environment.gateway.jwt
    if jwt is None or loaded.jwks is None:
        return None
    return JwtIssuer(
        issuer=jwt.issuer,
        audiences=jwt.audiences,
        tenant_claim=jwt.tenant_claim,
        jwks=loaded.jwks,
    )


def _client_certificates(loaded: LoadedEnvironment) -> ClientCertificates | None:
    asked = loaded.environment.gateway.client_certificates
    if asked is None or loaded.client_ca is None:
        return None
    return ClientCertificates(ca=loaded.client_ca, required=asked.required)


def _issuer(section: Gateway) -> Issuer | None:
    asked = section.certificate_issuer
    if asked is None:
        return None
    days, before = asked.duration_days, asked.renew_before_days
    return Issuer(
        kind=asked.kind,
        name=asked.name,
        duration_hours=Decided(HOURS * days, f"valid for {days} days, as asked for"),
        renew_before_hours=Decided(
            HOURS * before, f"so an issuer may be away for {before} days before callers notice"
        ),
    )


def _rate_limit(section: Gateway, lock: Lock, admitted: int) -> RateLimitPlan | None:
    """The service that keeps budgets, where any tenant has one."""
    if not any(one.requests_per_minute or one.tokens_per_minute for one in section.tenants):
        return None
    return RateLimitPlan(
        image=RATE_LIMIT.locked(lock),
        store_image=STORE.locked(lock),
        replicas=Decided(
            RATE_LIMIT_REPLICAS, "it keeps nothing itself, so two lose no budget with a node"
        ),
        host=gateway_host(RATE_LIMIT_SERVICE),
        port=RATE_LIMIT_PORT,
        store_host=gateway_host(RATE_LIMIT_STORE_SERVICE),
        store_port=STORE_PORT,
        max_questions=_questions(admitted, section),
        timeout_milliseconds=Decided(
            RATE_LIMIT_TIMEOUT_MILLISECONDS,
            "a request that has to ask waits no longer; the answer takes about 1 ms",
        ),
        down_seconds=Decided(
            RATE_LIMIT_DOWN_SECONDS,
            "after no answer nobody asks for so long, and each gateway keeps to its share",
        ),
    )


def _elsewhere(section: Gateway) -> int:
    """Requests that managed APIs may answer at the same time."""
    return sum(api.max_concurrent_requests for api in section.apis)


def _questions(admitted: int, section: Gateway) -> Decided[int]:
    elsewhere = _elsewhere(section)
    return Decided(
        max(LEAST_QUESTIONS, admitted + elsewhere),
        f"each of {admitted} requests to engines and {elsewhere} to managed APIs may ask for its "
        f"budget at the same moment; {LEAST_QUESTIONS} at least",
    )


def _streams(admitted: int) -> Decided[int]:
    return Decided(
        max(LEAST_STREAMS_PER_CONNECTION, admitted),
        f"one connection may carry all {admitted} requests that are let in at once",
    )


def gateway_memory(requests: int, body_bytes: int) -> Decided[int]:
    """Memory of one gateway pod in which every planned request fits, its body held twice.

    So much that the heap is not full then: beyond that requests are refused.
    """
    streams = math.ceil(requests * STREAM_KIB / 2**10)
    bodies = math.ceil(requests * 2 * body_bytes / 2**20)
    heap = math.ceil((BASE_HEAP_MIB + streams + bodies) / HEAP_FULL_SHARE)
    return Decided(
        NOT_HEAP_MIB + heap,
        f"{NOT_HEAP_MIB} beside the heap; of which {HEAP_FULL_SHARE:.0%} hold {BASE_HEAP_MIB} for "
        f"Envoy, {streams} for {requests} streams and {bodies} for two copies of their bodies at "
        "the largest size",
    )
