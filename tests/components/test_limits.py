"""No limit on the way of a request is below what was planned, in any environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tokenworks.components.gateway_pod import GatewayVolumes, gateway_pod
from tokenworks.environment.load import environment_names, load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.gateway_pods import STORE_DATA_MIB
from tokenworks.plan.types import Plan
from tokenworks.planning import resolve_loaded
from tokenworks.render_budgets import store_arguments
from tokenworks.render_gateway import gateway_files

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"
ENVOY_DEFAULT = {"max_connections": 1024, "max_requests": 1024, "max_retries": 3}
"""Circuit breakers of a cluster that says nothing; envoy.config.cluster.v3.CircuitBreakers."""


def cases() -> Iterator[Any]:
    for folder in (ROOT / "stacks", GOOD):
        for name in environment_names(folder):
            yield pytest.param((folder, name), id=f"{folder.name}-{name}")


@pytest.fixture(params=cases())
def plan(request: pytest.FixtureRequest) -> Plan:
    folder, name = request.param
    return resolve_loaded(load_environment(name, folder), read_lock(ROOT / "stacks"))


def read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def files(plan: Plan) -> dict[str, str]:
    return gateway_files(plan.gateway, listen_address="127.0.0.1")


def limits(plan: Plan) -> dict[str, dict[str, int]]:
    """Circuit breakers of each cluster, Envoy's own where it says nothing."""
    found = {}
    for cluster in read(files(plan)["cds.yaml"])["resources"]:
        (threshold,) = cluster.get("circuit_breakers", {}).get("thresholds", [{}])
        found[cluster["name"]] = ENVOY_DEFAULT | threshold
    return found


def listener(plan: Plan) -> Any:
    (found,) = [one for one in read(files(plan)["lds.yaml"])["resources"] if one["name"] == "tls"]
    return found["filter_chains"][0]["filters"][0]["typed_config"]


def admitted(plan: Plan) -> int:
    """Requests that may be inside one gateway at once."""
    return sum(model.max_concurrent_requests for model in plan.gateway.models)


def container(plan: Plan) -> tuple[Any, Any]:
    """The gateway's pod and its container."""
    volumes = GatewayVolumes(
        config="config", client_ca=None, keys="keys", credentials=None, tls="tls"
    )
    pod = gateway_pod(
        plan.gateway, plan.gateway_pods, selector={}, priority_class="high", volumes=volumes
    )
    return pod, pod["containers"][0]


def test_each_model_and_api_may_be_asked_as_often_at_once_as_planned(plan: Plan) -> None:
    found = limits(plan)
    planned = {f"model/{one.model}": one.max_concurrent_requests for one in plan.gateway.models}
    planned |= {f"api/{one.name}": one.max_concurrent_requests for one in plan.gateway.apis}
    for name, requests in planned.items():
        for cluster in (name, f"hop/{name}"):
            if cluster in found:
                assert found[cluster]["max_requests"] >= requests, cluster
                # Engines speak HTTP/1.1, so a connection is the true limit.
                assert found[cluster]["max_connections"] >= requests, cluster
        assert name in found


def test_a_chain_and_its_retries_hold_all_that_is_inside(plan: Plan) -> None:
    for name, found in limits(plan).items():
        if name.startswith(("chain/", "model/")):
            most = admitted(plan)
            if name.startswith("model/"):
                most = next(
                    one.max_concurrent_requests
                    for one in plan.gateway.models
                    if f"model/{one.model}" == name
                )
            assert found["max_requests"] >= most, name
            assert found["max_retries"] >= most, name


def test_a_shadow_may_hold_the_copies_that_were_asked_for(plan: Plan) -> None:
    found = limits(plan)
    for route in plan.gateway.routes:
        if route.shadow:
            cluster = found[f"shadow/{route.shadow.model}"]
            assert cluster["max_requests"] == route.shadow.max_concurrent_requests


def test_all_requests_inside_may_ask_for_their_budget_at_once(plan: Plan) -> None:
    found = limits(plan)
    assert ("rate_limit" in found) == (plan.gateway.rate_limit is not None)
    if plan.gateway.rate_limit:
        elsewhere = sum(one.max_concurrent_requests for one in plan.gateway.apis)
        for limit in ("max_requests", "max_connections", "max_pending_requests"):
            assert found["rate_limit"][limit] >= admitted(plan) + elsewhere, limit


def test_callers_may_bring_each_request_on_one_connection_or_on_its_own(plan: Plan) -> None:
    protocol = listener(plan)["http2_protocol_options"]
    assert protocol["max_concurrent_streams"] >= admitted(plan)
    assert callers(plan) >= admitted(plan)


def callers(plan: Plan) -> int:
    monitors = read(files(plan)["envoy.yaml"])["overload_manager"]["resource_monitors"]
    (found,) = [one["typed_config"] for one in monitors if "downstream" in one["name"]]
    most: int = found["max_active_downstream_connections"]
    return most


def test_the_gateway_starts_only_with_files_enough_for_all_its_connections(plan: Plan) -> None:
    onward = sum(
        found["max_connections"]
        for name, found in limits(plan).items()
        # Hops, chains and shadows stay inside the process and open no file.
        if name.startswith(("model/", "api/", "rate_limit"))
    )
    _, envoy = container(plan)
    script = envoy["command"][2]
    (files_needed,) = re.findall(r"ulimit -Sn (\d+) &&", script)
    assert int(files_needed) == plan.gateway_pods.file_descriptors.value
    assert int(files_needed) > callers(plan) + onward


def test_the_pod_has_memory_for_every_planned_request(plan: Plan) -> None:
    _, envoy = container(plan)
    bodies = admitted(plan) * plan.gateway.max_request_body_bytes.value
    memory = int(envoy["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert memory * 2**20 > 2 * bodies
    assert int(envoy["resources"]["requests"]["cpu"]) >= plan.gateway.workers.value


def test_nothing_ends_before_the_longest_request(plan: Plan) -> None:
    longest = plan.gateway.max_request_seconds.value
    assert seconds(listener(plan)["stream_idle_timeout"]) >= longest
    for route in served(plan):
        # Zero is no limit; the stream's own duration is the one that counts.
        assert route["timeout"] == "0s"
        assert seconds(route["idle_timeout"]) >= longest
        assert seconds(route["max_stream_duration"]["max_stream_duration"]) >= longest
    pod, _ = container(plan)
    assert plan.gateway.drain_seconds.value > longest
    assert pod["termination_grace_period_seconds"] > plan.gateway.drain_seconds.value
    for model in plan.models:
        assert model.termination_grace_seconds.value >= model.drain_seconds.value + longest


def served(plan: Plan) -> list[Any]:
    (found,) = read(files(plan)["rds.yaml"])["resources"]
    routes = [one["route"] for one in found["virtual_hosts"][0]["routes"] if "route" in one]
    assert routes
    return routes


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_engines_have_places_for_the_peak(plan: Plan) -> None:
    for model, engines in zip(plan.models, plan.gateway.models, strict=True):
        peak = model.capacity.peak_sequences.value
        assert model.replicas.value * model.max_batch_size.value >= peak
        assert engines.max_concurrent_requests >= peak


def test_the_store_drops_counters_before_its_pod_is_out_of_memory(plan: Plan) -> None:
    assert (plan.gateway.rate_limit is None) == (plan.gateway_pods.rate_limit is None)
    if plan.gateway.rate_limit is None or plan.gateway_pods.rate_limit is None:
        return
    arguments = store_arguments(plan.gateway.rate_limit)
    most = arguments[arguments.index("--maxmemory") + 1]
    assert most == f"{STORE_DATA_MIB}mb"
    assert plan.gateway_pods.rate_limit.store.memory_mib.value > STORE_DATA_MIB
