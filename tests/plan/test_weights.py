"""How a volume is filled is decided in the plan: room, time, connections, and whom it may call."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.environment.weights_source import HttpSource
from tokenworks.naming import weights_claim
from tokenworks.plan.types import ClaimPlan, ModelPlan, ServerPlan
from tokenworks.plan.weights import connections, deadline_seconds, reach, volume_gib
from tokenworks.planning import resolve_loaded
from tokenworks.report.explain import explain
from tokenworks.show import plan_tables
from tokenworks.sizing.cold_start import MIB, cold_start

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"
GIB = 2**30
TOOL_SPARE_BYTES = 64 * MIB


@pytest.fixture(scope="module")
def models() -> dict[str, ModelPlan]:
    loaded = load_environment("weights-from-everywhere", GOOD)
    plan = resolve_loaded(loaded, read_lock(ROOT / "stacks"))
    return {model.name: model for model in plan.models}


@given(total=st.integers(1, 2 * 10**12), previous=st.integers(0, 100))
def test_a_volume_has_room_for_every_revision_and_for_its_file_system(
    total: int, previous: int
) -> None:
    size = volume_gib(total, previous).value * GIB
    needed = total * (previous + 2) + TOOL_SPARE_BYTES
    assert size * 95 // 100 >= needed
    assert size <= needed / 0.95 * 9 / 8 + GIB * 9 / 8 + 2**29


def test_the_room_that_the_tool_keeps_free_is_the_one_that_is_planned() -> None:
    text = (ROOT / "templates" / "weights" / "populate.py").read_text("utf-8")
    assert f"SPARE_BYTES = {TOOL_SPARE_BYTES // MIB} * 2**20" in text


def test_a_slightly_larger_revision_needs_no_other_volume() -> None:
    total = 16_070_000_000
    assert volume_gib(total, 1).value == volume_gib(total + total // 200, 1).value
    assert volume_gib(total, 1).value < volume_gib(2 * total, 1).value
    assert weights_claim("m", 48) != weights_claim("m", 52)


@given(
    total=st.integers(1, 2 * 10**12),
    rate=st.integers(1, 10_000),
    read=st.integers(1, 10_000),
)
def test_a_download_at_the_measured_rate_ends_before_its_deadline(
    total: int, rate: int, read: int
) -> None:
    times = cold_start(total, read)
    decided = deadline_seconds(total, rate, times)
    assert decided.value >= 2 * (total / MIB / rate + times.image_pull_seconds)
    assert "as measured" in decided.because


def test_an_unmeasured_rate_is_called_an_assumption() -> None:
    times = cold_start(10**10, 1000)
    assert "an assumption" in deadline_seconds(10**10, None, times).because
    assert deadline_seconds(10**10, None, times).value > deadline_seconds(10**10, 500, times).value


@pytest.mark.parametrize(("files", "expected"), [(0, 1), (1, 1), (7, 7), (163, 8)])
def test_no_more_connections_than_files_and_than_the_hubs_own_client(
    files: int, expected: int
) -> None:
    assert connections(files).value == expected


def test_each_source_is_planned_as_it_is_named(models: dict[str, ModelPlan]) -> None:
    sources = {name: model.weights.populate.source for name, model in models.items()}
    commit = "c1899de289a04d12100db370d81485cdf75e47ca"
    hub = sources["from-a-hub"]
    assert isinstance(hub, ServerPlan)
    assert hub.url == f"https://hub.example/Qwen/Qwen3-0.6B/resolve/{commit}/"
    assert hub.token_secret == "hub-token"  # noqa: S105
    assert hub.authority
    assert hub.authority.startswith("-----BEGIN CERTIFICATE-----")
    server = sources["from-a-server"]
    assert isinstance(server, ServerPlan)
    assert (server.url, server.token_secret) == ("https://models.example:8443/qwen/", None)
    assert sources["from-a-volume"] == ClaimPlan(claim="store", folder="qwen/0.6b")
    assert models["from-a-volume"].weights.populate.reach is None


def test_left_out_a_source_is_the_public_hub_at_the_pinned_revision() -> None:
    plan = resolve_loaded(load_environment("one-model", GOOD), read_lock(ROOT / "stacks"))
    (model, *_) = plan.models
    source = model.weights.populate.source
    assert isinstance(source, ServerPlan)
    where = f"{model.weights.repository}/resolve/{model.weights.revision}/"
    assert source.url == f"https://huggingface.co/{where}"


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.20.0.1",
        "192.168.1.1",
        "::1",
        "fd00:ec2::254",
        "fe80::1",
    ],
)
def test_a_public_source_leaves_out_every_address_that_is_not_public(address: str) -> None:
    inner = ipaddress.ip_address(address)
    assert not inner.is_global
    decided = reach(HttpSource(url="https://models.example"))
    for network, but in decided.value.networks:
        whole = ipaddress.ip_network(network)
        parts = [ipaddress.ip_network(one) for one in but]
        assert all(part.version == whole.version for part in parts)
        if inner in whole:
            assert any(inner in part for part in parts)


def test_an_address_in_a_url_is_all_that_is_opened() -> None:
    decided = reach(HttpSource(url="http://192.0.2.3:8080/x"))
    assert decided.value.networks == (("192.0.2.3/32", ()),)
    assert (decided.value.port, decided.value.names) == (8080, False)


def test_the_engine_reads_a_folder_named_after_commit_and_content_that_ends_in_the_model(
    models: dict[str, ModelPlan],
) -> None:
    for name, model in models.items():
        weights = model.weights
        found = re.fullmatch(r"/models/([0-9a-f]{12})-([0-9a-f]{12})/([^/]+)", weights.path)
        assert found
        assert weights.revision.startswith(found[1])
        assert weights.digest.startswith(f"sha256:{found[2]}")
        assert found[3] == name
        assert weights.path in model.command


def test_the_plan_shows_where_weights_come_from_and_why_in_so_much_time() -> None:
    from rich.console import Console

    plan = resolve_loaded(
        load_environment("weights-from-everywhere", GOOD), read_lock(ROOT / "stacks")
    )
    console = Console(width=220)
    with console.capture() as captured:
        console.print(plan_tables(plan))
    text = captured.get()
    for words in (
        "weights source",
        "https://models.example:8443/qwen/",
        "weights reach",
        "weights volume_gib",
        "weights deadline_seconds",
        "weights connections",
        "store: qwen/0.6b",
    ):
        assert words in text
    (first, *_) = explain(plan, "models.from-a-hub.weights.populate.deadline_seconds")
    assert "as measured" in first.because
