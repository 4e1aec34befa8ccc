"""Thousands of requests that no client should send: no engine is reached, nothing breaks.

Each case follows from ``SEED``, its kind and its number alone; a failure prints the request, and
``cases(kind, 1, SEED, first=number)`` makes it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.gateway.simulated_engine.wire import Request
from tokenworks.plan.gateway_types import TenantPlan

from .fuzz_framing import framing_case
from .fuzz_requests import HIDDEN, Case, body_case, cases, header_case, mutated_case, path_case
from .harness import KEY, KEYS, Gateway, decided, engines_of, plan_for, running
from .http2_fuzz import Connection, Verdict, http2_case
from .simulated import CHAT, Running
from .simulated import engine as simulated
from .wire import Answer, Wire, is_error

pytestmark = pytest.mark.envoy

SEED = 20261129
COUNTS = {"body": 3800, "header": 2400, "path": 2400, "mutated": 600, "framing": 900, "http2": 400}
SENTINEL = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=2)


@dataclass
class Target:
    """The gateway under attack, the engine behind it, and what was seen there."""

    gateway: Gateway
    engine: Running
    statuses: dict[int, int] = field(default_factory=dict)

    def arrived(self) -> list[Request]:
        """What callers brought to the engine since the last look."""
        seen = list(self.engine.server.engine.requests)
        self.engine.server.engine.requests.clear()
        return [one for one in seen if one.path != "/health_generate"]

    def judge(self, case: Case, answer: Answer) -> None:
        """A refusal in the right shape, or the answer of an engine that may have been reached."""
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        arrived = self.arrived()
        for one in arrived:
            assert case.may_reach, f"reached the engine as {one}: {case}"
            assert is_clean(one), f"reached the engine as {one}: {case}"
        assert answer.status < 500 or answer.status in {501, 505}, f"{answer} to {case}"
        if not arrived and answer.status != 200:
            assert answer.status >= 400, f"{answer} to {case}"
            assert case.head or is_error(answer.body), f"{answer} to {case}"
        if case.key != "right":
            assert answer.status >= 400, f"{answer} to {case}"


def is_clean(request: Request) -> bool:
    """What an engine may see: the tenant's own request, with its own salt, on a path it may use."""
    headers = [value for name, value in request.headers if name == "x-tenant-id"]
    pairs = json.loads(request.body, object_pairs_hook=list)
    salts = [value for name, value in pairs if name == "cache_salt"]
    return (
        headers == ["search"]
        and (request.method, request.path, salts) == ("POST", CHAT, ["search"])
        and not request.header("authorization")
        and HIDDEN.encode() not in request.body
        and KEY not in str(request.headers)
    )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    tenants = tuple(TenantPlan(name=name, key_secrets=()) for name in KEYS)
    with simulated(QUICK) as engine:
        plan = plan_for(
            [engines_of("alpha", engine.port)],
            tenants=tenants,
            max_request_seconds=decided(60),
            stream_idle_seconds=decided(60),
        )
        with running(tmp_path_factory.mktemp("fuzz"), plan) as gateway:
            yield Target(gateway, engine)


def attack(target: Target, wanted: Iterable[Case]) -> None:
    """One answer to each request, on connections that are kept as long as the gateway keeps them.

    Before each connection is given up, an ordinary request must get its own answer there.
    """
    left = list(wanted)[::-1]
    while left:
        with Wire(target.gateway.plan.tls_port) as wire:
            for _ in range(min(40, len(left))):
                case = left.pop()
                wire.send(case.data)
                answer = told(case, lambda case=case: wire.answer(head=case.head))  # type: ignore[misc]
                assert answer is not None, f"closed without an answer: {case}"
                target.judge(case, answer)
                if answer.closes:
                    break
            else:
                wire.send(SENTINEL)
                last = wire.answer()
                assert last is not None, f"the connection is gone after {case}"
                assert last.status == 401, f"another's answer ({last}) after {case}"


def told(case: Case, act: Callable[[], Answer | None]) -> Answer | None:
    """The answer; whatever goes wrong names the request."""
    try:
        return act()
    except (AssertionError, OSError, ValueError) as error:
        raise AssertionError(f"{error!r}: {case}") from error


@pytest.mark.parametrize(
    "kind", [body_case, header_case, path_case], ids=["body", "header", "path"]
)
def test_a_request_gets_one_well_formed_answer_and_its_connection_stays_in_step(
    target: Target, kind: Callable[[int, Random], Case]
) -> None:
    name = kind.__name__.removesuffix("_case")
    attack(target, cases(kind, COUNTS[name], SEED))
    assert target.statuses.get(400, 0) + target.statuses.get(404, 0) > 100


@pytest.mark.parametrize("kind", [mutated_case, framing_case], ids=["mutated", "framing"])
def test_bytes_in_doubt_are_refused_and_smuggle_nothing(
    target: Target, kind: Callable[[int, Random], Case]
) -> None:
    for case in cases(kind, COUNTS[kind.__name__.removesuffix("_case")], SEED):
        with Wire(target.gateway.plan.tls_port) as wire:
            if not case.complete:
                wire.send(case.data)
                continue
            wire.send(case.data + LAST)
            answers = 0
            while (answer := told(case, lambda: wire.answer(head=case.head))) is not None:  # noqa: B023
                answers += 1
                # A hidden request that is taken for one is refused, as nobody sent it.
                target.judge(case, answer)
                if answer.closes:
                    break
            assert answers, f"closed without an answer: {case}"


@pytest.mark.parametrize("may_reach", [False, True], ids=["strangers", "a tenant"])
def test_http_2_frames_in_doubt_are_refused(target: Target, may_reach: bool) -> None:
    """Each on its own connection; many at once, since a bad one is closed after a second."""

    def offer(case: Case) -> tuple[Case, Verdict]:
        with Connection(target.gateway.plan.tls_port) as connection:
            return case, connection.offer(case.data)

    wanted = [
        case for case in cases(http2_case, COUNTS["http2"], SEED) if case.may_reach == may_reach
    ]
    with ThreadPoolExecutor(40) as pool:
        for case, verdict in pool.map(offer, wanted):
            assert may_reach or not verdict.ok, f"{verdict}: {case}"
            assert may_reach or not verdict.body or is_error(verdict.body), f"{verdict}: {case}"
    arrived = target.arrived()
    assert all(is_clean(one) for one in arrived), arrived
    assert bool(arrived) == may_reach, arrived


def test_the_gateway_and_its_log_are_as_before(target: Target) -> None:
    """Runs last: Envoy lives, serves, has written no fault and holds nothing that was sent."""
    time.sleep(0.2)
    for one in target.arrived():
        assert is_clean(one), one
    assert target.gateway.process.poll() is None
    body = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}
    assert target.gateway.post(body).status == 200
    log = target.gateway.log.read_text(encoding="utf-8", errors="replace")
    assert "script log" not in log
    assert "Caught" not in log
    assert "assert" not in log.lower()


def test_there_are_ten_thousand_of_them() -> None:
    assert sum(COUNTS.values()) >= 10_000
