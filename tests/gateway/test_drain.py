"""How a gateway ends: what runs is finished, nothing new is let down."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenworks.templating import render

from .harness import KEY, Gateway, decided, engines_of, plan_for, running, until
from .held import HeldEngine, held_streams
from .simulated import LOOPBACK

pytestmark = pytest.mark.envoy

BASH = shutil.which("bash") or "bash"


@pytest.fixture
def engine() -> Iterator[HeldEngine]:
    with HeldEngine() as engine:
        yield engine


@pytest.fixture
def gateway(engine: HeldEngine, tmp_path: Path) -> Iterator[Gateway]:
    plan = plan_for(
        [engines_of("alpha", engine.port)],
        max_request_seconds=decided(60),
        stream_idle_seconds=decided(60),
    )
    with running(tmp_path, plan) as gateway:
        yield gateway


@contextlib.contextmanager
def stopping(
    gateway: Gateway, folder: Path, *, most_seconds: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The container's preStop hook, with a second instead of fifteen for load balancers."""
    script = folder / "drain.sh"
    plan = plan_for(
        gateway.plan.models,
        admin_port=gateway.plan.admin_port,
        drain_seconds=decided(most_seconds),
    )
    script.write_text(render("gateway/drain.sh.j2", plan=plan, drain_minimum_seconds=1))
    hook = subprocess.Popen([BASH, str(script)])
    try:
        yield hook
    finally:
        hook.kill()
        hook.wait(10)


def test_the_hook_waits_for_every_running_stream_and_then_the_end_cuts_none(
    gateway: Gateway, engine: HeldEngine, tmp_path: Path
) -> None:
    with (
        held_streams(gateway, engine, "alpha", count=6) as held,
        stopping(gateway, tmp_path, most_seconds=60) as hook,
    ):
        until(lambda: gateway.plain("GET", "/ready").status == 503, what="the failed probe")
        held.go_on("the hook began")
        assert hook.poll() is None
        held.let_go()
        assert hook.wait(30) == 0
        gateway.process.terminate()
        gateway.process.wait(10)


def test_who_comes_while_it_drains_is_answered_and_sent_away(
    gateway: Gateway, engine: HeldEngine, tmp_path: Path
) -> None:
    """Load balancers go on sending for a while; a kept connection must not be used again."""
    with contextlib.closing(gateway.connection()) as kept:
        kept.request("GET", "/v1/models", headers={"authorization": f"Bearer {KEY}"})
        first = kept.getresponse()
        first.read()
        assert first.headers["connection"] is None
        with (
            held_streams(gateway, engine, "alpha", count=1) as held,
            stopping(gateway, tmp_path, most_seconds=60),
        ):
            until(lambda: gateway.plain("GET", "/ready").status == 503, what="the failed probe")
            kept.request("GET", "/v1/models", headers={"authorization": f"Bearer {KEY}"})
            second = kept.getresponse()
            assert (second.status, second.headers["connection"]) == (200, "close")
            fresh = gateway.post({"model": "alpha"})
            assert (fresh.status, fresh.headers["connection"]) == (200, "close")
            held.let_go()


def test_once_it_has_ended_a_new_connection_is_refused_at_once(
    gateway: Gateway, engine: HeldEngine, tmp_path: Path
) -> None:
    with (
        held_streams(gateway, engine, "alpha", count=1) as held,
        stopping(gateway, tmp_path, most_seconds=60) as hook,
    ):
        held.let_go()
        assert hook.wait(30) == 0
        gateway.process.terminate()
        assert gateway.process.wait(10) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, gateway.plan.tls_port), 5)


def test_the_hook_gives_up_when_its_time_is_over(
    gateway: Gateway, engine: HeldEngine, tmp_path: Path
) -> None:
    """A stream that never ends must not keep a pod from being replaced."""
    with (
        held_streams(gateway, engine, "alpha", count=1) as held,
        stopping(gateway, tmp_path, most_seconds=3) as hook,
    ):
        assert hook.wait(30) == 0
        held.go_on("the hook gave up")
        held.let_go()


def test_callers_are_answered_until_load_balancers_have_seen_the_failed_probe(
    gateway: Gateway, engine: HeldEngine, tmp_path: Path
) -> None:
    outcomes: set[int] = set()
    ended = threading.Event()

    def call() -> None:
        while not ended.is_set():
            outcomes.add(gateway.post({"model": "alpha"}).status)

    callers = [threading.Thread(target=call) for _ in range(3)]
    with stopping(gateway, tmp_path, most_seconds=60) as hook:
        for caller in callers:
            caller.start()
        until(lambda: 200 in outcomes, what="an answer")
        until(lambda: gateway.plain("GET", "/ready").status == 503, what="the failed probe")
        ended.set()
        for caller in callers:
            caller.join(10)
        assert hook.wait(30) == 0
        gateway.process.terminate()
        gateway.process.wait(10)
    assert outcomes == {200}
