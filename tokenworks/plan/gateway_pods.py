"""How the gateway's pods start, prove that they live, take from their nodes, and end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tokenworks.plan.gateway import (
    ENDPOINT_REMOVAL_SECONDS,
    PROBE_TIMEOUT_SECONDS,
    STOP_MARGIN_SECONDS,
)
from tokenworks.plan.gateway_budgets import SHARES_PER_COUNTER
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.plan.spread import GATEWAY_SPREAD, SpreadPlan
from tokenworks.plan.types import HTTP_PORT_NAME, Decided, Probe

HTTPS_PORT_NAME = "https"
READINESS_PORT_NAME = "readiness"
SERVICE_PORT_NAME = HTTP_PORT_NAME
STORE_PORT_NAME = "store"

CALLER_CONNECTIONS = 10_000
"""Callers' connections at once in one Envoy: twice the 5,000 streams that it must carry."""
CONNECTIONS_PER_REQUEST = 2
"""Connections to engines and managed APIs for each request that may be inside: the configuration
leaves room above the limit on requests, so that one too many is refused and does not wait."""
OTHER_DESCRIPTORS = 512
"""Listeners, watched files, logs and the connections of probes."""

START_PERIOD_SECONDS = 2
START_SECONDS = 60
PROBE_ANSWER_SECONDS = 5
"""The kubelet's default of one second fails what is merely busy."""
READY_PERIOD_SECONDS = 5
READY_FAILURES = 2
ALIVE_PATH = "/alive"
"""Envoy's worker answers it by itself, so one that hangs does not, and one that drains does."""
ALIVE_PERIOD_SECONDS = 10
ALIVE_FAILURES = 6
SERVICE_MEMORY_MIB = 128
SERVICE_CPU_MILLICORES = 100
STORE_DATA_MIB = 64
"""Where the store begins to drop counters, the one that ends first before others."""
STORE_STOP_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class PodProbes:
    """What the kubelet asks a container: whether it has started, may serve, and lives."""

    startup: Decided[Probe]
    readiness: Decided[Probe]
    liveness: Decided[Probe]


@dataclass(frozen=True, kw_only=True)
class PodPlan:
    """One pod beside the gateway: probes, share of its node, and end."""

    probes: PodProbes
    cpu_millicores: Decided[int]
    memory_mib: Decided[int]
    stop_delay_seconds: Decided[int]
    termination_grace_seconds: Decided[int]


@dataclass(frozen=True, kw_only=True)
class RateLimitPods:
    """The pods that keep the budgets."""

    service: PodPlan
    store: PodPlan
    store_replicas: Decided[int]
    spread: SpreadPlan


@dataclass(frozen=True, kw_only=True)
class GatewayPods:
    """What the gateway's pods need beside what they serve; ``rate_limit`` where budgets are."""

    probes: PodProbes
    file_descriptors: Decided[int]
    spread: SpreadPlan
    rate_limit: RateLimitPods | None


def gateway_pods(plan: GatewayPlan) -> GatewayPods:
    """The pods of a gateway, from what it serves."""
    return GatewayPods(
        probes=_probes(
            READINESS_PORT_NAME,
            ready_path="/ready",
            liveness=_gateway_liveness(),
            start_seconds=3 * PROBE_TIMEOUT_SECONDS,
            start_because="Envoy serves once it has asked each model's engines for a first token, "
            f"{PROBE_TIMEOUT_SECONDS} s at most; three times as long before it counts as stuck",
        ),
        file_descriptors=_file_descriptors(plan),
        spread=GATEWAY_SPREAD,
        rate_limit=_rate_limit(plan) if plan.rate_limit else None,
    )


def _gateway_liveness() -> Decided[Probe]:
    kill = ENDPOINT_REMOVAL_SECONDS + STOP_MARGIN_SECONDS
    return Decided(
        Probe(
            port=READINESS_PORT_NAME,
            path=ALIVE_PATH,
            period_seconds=ALIVE_PERIOD_SECONDS,
            timeout_seconds=PROBE_ANSWER_SECONDS,
            failure_threshold=ALIVE_FAILURES,
            kill_seconds=kill,
        ),
        "a worker answers it, also while it drains; connections are taken for one that hangs, too; "
        f"once it failed, {kill} s until it is killed: {ENDPOINT_REMOVAL_SECONDS} s of drain and "
        f"{STOP_MARGIN_SECONDS} s to end by itself, since its streams are lost already",
    )


def _connection_liveness(port: str) -> Decided[Probe]:
    return Decided(
        _probe(port, None, ALIVE_PERIOD_SECONDS, ALIVE_FAILURES),
        "the process only, and for a minute: a pod that drains or is busy must not be killed",
    )


def _probes(
    port: str,
    *,
    ready_path: str | None,
    start_because: str,
    liveness: Decided[Probe],
    start_seconds: int = START_SECONDS,
) -> PodProbes:
    return PodProbes(
        startup=Decided(
            _probe(
                port,
                ready_path,
                START_PERIOD_SECONDS,
                math.ceil(start_seconds / START_PERIOD_SECONDS),
            ),
            start_because,
        ),
        readiness=Decided(
            _probe(port, ready_path, READY_PERIOD_SECONDS, READY_FAILURES),
            "who does not answer twice gets no new work until it answers again",
        ),
        liveness=liveness,
    )


def _probe(port: str, path: str | None, period: int, failures: int) -> Probe:
    return Probe(
        port=port,
        path=path,
        period_seconds=period,
        timeout_seconds=PROBE_ANSWER_SECONDS,
        failure_threshold=failures,
    )


def _file_descriptors(plan: GatewayPlan) -> Decided[int]:
    """Every connection that the configuration allows is an open file."""
    engines = sum(model.max_concurrent_requests for model in plan.models)
    apis = sum(api.max_concurrent_requests for api in plan.apis)
    onward = CONNECTIONS_PER_REQUEST * (engines + apis)
    service = plan.rate_limit.max_questions.value if plan.rate_limit else 0
    return Decided(
        CALLER_CONNECTIONS + onward + service + OTHER_DESCRIPTORS,
        f"{CALLER_CONNECTIONS} connections of callers, {onward} to engines and managed APIs, "
        f"{service} to the rate-limit service and {OTHER_DESCRIPTORS} others; where a node allows "
        "a container fewer, the gateway does not start, since it would refuse callers at a peak",
    )


def _rate_limit(plan: GatewayPlan) -> RateLimitPods:
    return RateLimitPods(
        service=_service(plan),
        store=_store(),
        spread=GATEWAY_SPREAD,
        store_replicas=Decided(
            1,
            "two would keep two counts; while it is away each gateway keeps to its share, so "
            "draining its node need not wait and it has no disruption budget",
        ),
    )


def _service(plan: GatewayPlan) -> PodPlan:
    budgets = sum(
        budget is not None for one in plan.tenants for budget in (one.requests, one.tokens)
    )
    questions = SHARES_PER_COUNTER * plan.counters.value * budgets
    return PodPlan(
        probes=_probes(
            SERVICE_PORT_NAME,
            liveness=_connection_liveness(SERVICE_PORT_NAME),
            ready_path="/healthcheck",
            start_because=f"it ends itself when its store is away; {START_SECONDS} s are for one "
            "that answers slowly",
        ),
        cpu_millicores=Decided(
            SERVICE_CPU_MILLICORES,
            f"what it is sure of, not a limit: about {questions} questions a minute for {budgets} "
            "budgets, and more where one ends",
        ),
        memory_mib=Decided(
            SERVICE_MEMORY_MIB, f"an allowance: it keeps {budgets} limits and no counter"
        ),
        stop_delay_seconds=Decided(
            ENDPOINT_REMOVAL_SECONDS, "gateways may still ask here until they learn that it leaves"
        ),
        termination_grace_seconds=Decided(
            ENDPOINT_REMOVAL_SECONDS + STOP_MARGIN_SECONDS,
            f"that delay, and {STOP_MARGIN_SECONDS} s for questions that take milliseconds",
        ),
    )


def _store() -> PodPlan:
    return PodPlan(
        probes=_probes(
            STORE_PORT_NAME,
            liveness=_connection_liveness(STORE_PORT_NAME),
            ready_path=None,
            start_because="it begins empty, so it answers within a second",
        ),
        cpu_millicores=Decided(
            SERVICE_CPU_MILLICORES, "what it is sure of, not a limit: one command a question"
        ),
        memory_mib=Decided(
            2 * STORE_DATA_MIB,
            f"twice the {STORE_DATA_MIB} MiB at which it drops counters that end first",
        ),
        stop_delay_seconds=Decided(
            0, "the next one starts when this one has ended, so waiting would only delay it"
        ),
        termination_grace_seconds=Decided(
            STORE_STOP_SECONDS, "it ends at once: nothing is written to disk"
        ),
    )
