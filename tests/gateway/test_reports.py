"""What went wrong for others: each report has a test; those without one elsewhere are here."""

from __future__ import annotations

import ast
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import HealthProbe, Shadow, TenantPlan

from .fuzz_requests import request
from .harness import KEY, KEYS, Gateway, decided, engines_of, plan_for, route_to, running, until
from .held import HeldEngine
from .http2_fuzz import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame
from .simulated import CHAT, LOOPBACK, Running
from .simulated import engine as simulated
from .wire import Wire, trusting_context

HERE = Path(__file__).resolve().parent
CASES = HERE.parent / "cases" / "gateway" / "reports.yaml"
REPORTS: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(CASES)
QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=4)
PATIENT = HealthProbe(
    path="/health_generate", interval_seconds=10, timeout_seconds=30, failure_threshold=2
)
BODY: dict[str, Any] = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}
KNOWN_NUMBERS = {1, 2, 3, 5, 7, 8, 9, 11, 12, 14, 15, 16, 17, 19, 20, 21, 23, 24, 25, 27, 28, 29}


# --- The table -----------------------------------------------------------------------------------


def test_every_report_has_tests_that_exist_or_a_reason_to_have_none() -> None:
    for report in REPORTS:
        assert ("tests" in report) != ("aside" in report), report["number"]
        for test in report.get("tests", []):
            file, _, name = test.partition("::")
            tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{report['number']}: {test}"


def test_no_report_is_lost_or_listed_twice() -> None:
    numbers = [report["number"] for report in REPORTS]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) >= KNOWN_NUMBERS
    for report in REPORTS:
        assert len(report["seen"]) > 10
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one) for one in report["reports"])


# --- Reports with no test elsewhere ---------------------------------------------------------------


@pytest.fixture(scope="module")
def alpha() -> Iterator[Running]:
    with simulated(QUICK, "alpha-0") as engine:
        yield engine


@pytest.fixture(scope="module")
def beta() -> Iterator[Running]:
    with simulated(QUICK, "beta-0") as engine:
        yield engine


@pytest.fixture(scope="module")
def streams() -> Iterator[HeldEngine]:
    with HeldEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def started(
    alpha: Running,
    beta: Running,
    streams: HeldEngine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """``shadowed`` is served by ``alpha``'s engine and copied to ``beta``; times are as planned."""
    plan = plan_for(
        [
            engines_of("alpha", alpha.port, probe=decided(PATIENT)),
            engines_of("beta", beta.port),
            engines_of("shadowed", alpha.port, probe=decided(PATIENT)),
            engines_of("held", streams.port, most=200),
        ],
        routes=(
            route_to("alpha"),
            route_to("beta"),
            route_to("held"),
            route_to(
                "shadowed", shadow=Shadow(model="beta", percent=100, max_concurrent_requests=4)
            ),
        ),
        tenants=tuple(TenantPlan(name=name, key_secrets=()) for name in KEYS),
        max_request_seconds=decided(120),
        stream_idle_seconds=decided(120),
    )
    with running(tmp_path_factory.mktemp("reports"), plan) as gateway:
        yield gateway


@pytest.fixture
def gateway(started: Gateway, alpha: Running, beta: Running) -> Gateway:
    """The running gateway, before engines that are as they were and have seen nothing."""
    for engine in (alpha, beta):
        engine.settings(**QUICK.record())
        engine.server.engine.requests.clear()
    return started


def asked(engine: Running) -> int:
    return sum(1 for one in engine.requests() if one["path"] == CHAT)


@pytest.mark.envoy
def test_a_first_token_after_more_than_fifteen_seconds_arrives(
    gateway: Gateway, alpha: Running
) -> None:
    """In real time, because it is the default of a program that is not ours."""
    alpha.settings(first_token_seconds=15.5)
    with Wire(gateway.plan.tls_port, timeout=60) as wire:
        wire.send(request(KEY, json.dumps({**BODY, "stream": True}).encode()))
        answer = wire.answer()
    assert answer is not None
    assert answer.status == 200
    assert answer.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.envoy
def test_no_route_has_a_time_limit_but_the_planned_ones(gateway: Gateway) -> None:
    files = gateway.files(gateway.plan)
    read = YAML(typ="safe", pure=True)
    actions = [
        action
        for name in ("rds.yaml", "lds.yaml")
        for action in found_in(read.load(files[name]), "route")
        if isinstance(action, dict) and action.get("cluster") != "admin"
    ]
    assert len(actions) >= len(gateway.plan.routes)
    for action in actions:
        assert (action["timeout"], action["idle_timeout"]) == ("0s", "120s"), action
        assert action["max_stream_duration"] == {"max_stream_duration": "120s"}, action
    for stream_idle in found_in(read.load(files["lds.yaml"]), "stream_idle_timeout"):
        assert stream_idle == "120s"


def found_in(value: Any, name: str) -> list[Any]:
    """Every member of a name, however deep."""
    if isinstance(value, list):
        return [one for item in value for one in found_in(item, name)]
    if not isinstance(value, dict):
        return []
    below = [one for item in value.values() for one in found_in(item, name)]
    return [*([value[name]] if name in value else []), *below]


@pytest.mark.envoy
@pytest.mark.parametrize("fault", ["unavailable", "error", "reset"])
def test_an_engine_s_error_is_asked_for_once(gateway: Gateway, alpha: Running, fault: str) -> None:
    """Whatever a client repeats on top of that, it multiplies with one."""
    alpha.settings(fault=fault, fault_requests=8)
    assert gateway.post(BODY).status in {500, 503}
    assert asked(alpha) == 1


@pytest.mark.envoy
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_larger_than_every_buffer_arrives_whole(
    gateway: Gateway, alpha: Running, stream: bool
) -> None:
    """A connection's buffer holds 32 KiB and a request body 64."""
    alpha.settings(output_tokens=20_000)
    reply = gateway.post({**BODY, "stream": stream, "max_tokens": 20_000})
    assert reply.status == 200
    assert len(reply.body) > 100_000
    if stream:
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert reply.body.count(b'"content"') == 20_000
    else:
        assert reply.json["usage"]["completion_tokens"] == 20_000


@pytest.mark.envoy
def test_the_gateway_keeps_silent_connections_alive(gateway: Gateway) -> None:
    """The kernel's own timer of the gateway's end: it asks within the 350 s of a load balancer."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("keepalives were NOT tested: only /proc tells of timers")
    with Wire(gateway.plan.tls_port) as wire:
        wire.send(request(KEY, json.dumps(BODY).encode()))
        answer = wire.answer()
        assert answer is not None
        assert answer.status == 200
        # Another timer (01) runs while something is not acknowledged yet.
        until(lambda: set(kept_alive(gateway)) == {"02"}, what="the timer of an idle connection")
        assert max(kept_alive(gateway).values()) <= 60


def kept_alive(gateway: Gateway) -> dict[str, float]:
    """Kind of each timer of the gateway's connections, and the longest time that it still runs."""
    found: dict[str, float] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, _, timer, *_ = line.split()
        if local.endswith(f":{gateway.plan.tls_port:04X}") and state == "01":
            kind, ticks = timer.split(":")
            found[kind] = max(found.get(kind, 0), int(ticks, 16) / 100)  # USER_HZ is 100
    return found


@pytest.mark.envoy
def test_what_a_shadow_uses_is_charged_to_nobody(
    gateway: Gateway, alpha: Running, beta: Running
) -> None:
    def counted() -> float:
        lines = gateway.plain("GET", "/stats/prometheus").body.decode().splitlines()
        found = [line for line in lines if "envoy_gateway_tokens{" in line]
        return sum(float(line.split()[-1]) for line in found)

    before = counted()
    beta.settings(output_tokens=4000)
    reply = gateway.post({**BODY, "model": "shadowed"})
    until(lambda: asked(beta) == 1, what="the copy")
    until(lambda: beta.state()["running"] == 0, what="the end of the copy")
    assert counted() - before == reply.json["usage"]["total_tokens"]


@pytest.mark.envoy
def test_a_proxy_header_is_no_way_in(gateway: Gateway, alpha: Running) -> None:
    """Nobody before the gateway sends one, so it is what it looks like: no HTTP and no TLS."""
    with Wire(gateway.plan.tls_port) as wire:
        wire.send(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + request(KEY, json.dumps(BODY).encode()))
        answer = wire.answer()
    assert answer is not None
    assert answer.status == 400
    assert asked(alpha) == 0


@pytest.mark.envoy
def test_one_connection_carries_as_many_streams_as_planned(
    gateway: Gateway, streams: HeldEngine
) -> None:
    """All 128 at once reach the engine over one connection, and each ends whole."""
    count = gateway.plan.max_streams_per_connection.value
    assert count >= 128
    streams.released.clear()
    streams.received.clear()
    plain = socket.create_connection((LOOPBACK, gateway.plan.tls_port), 20)
    with trusting_context("h2").wrap_socket(plain) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        for number in range(count):
            connection.sendall(_stream(2 * number + 1))
        until(lambda: len(streams.received) == count, what="every stream at the engine")
        streams.released.set()
        ended: set[int] = set()
        with connection.makefile("rb") as frames:
            while len(ended) < count:
                head = frames.read(9)
                frames.read(int.from_bytes(head[:3], "big"))
                if head[3] in (DATA, HEADERS) and head[4] & END_STREAM:
                    ended.add(int.from_bytes(head[5:], "big"))
    assert len(ended) == count


def _stream(number: int) -> bytes:
    body = b'{"model": "held", "stream": true}'
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"gateway"),
        (b":path", CHAT.encode()),
        (b"content-type", b"application/json"),
        (b"authorization", f"Bearer {KEY}".encode()),
    ]
    headers = frame(HEADERS, END_HEADERS, number, block(fields))
    return headers + frame(DATA, END_STREAM, number, body)


@pytest.mark.envoy
@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_who_waits_for_leave_to_send_gets_it_or_a_refusal(
    gateway: Gateway, alpha: Running, key: str
) -> None:
    """Envoy says 100 itself; the body is held back until it is known whose it is."""
    body = json.dumps(BODY).encode()
    whole = request(key, body, extra=(b"expect: 100-continue",))
    with Wire(gateway.plan.tls_port) as wire:
        wire.send(whole[: -len(body)])
        wire.send(body)
        answer = wire.answer()
    assert answer is not None
    assert answer.status == (200 if key == KEY else 401)
    assert asked(alpha) == (1 if key == KEY else 0)
