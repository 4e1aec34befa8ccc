"""How many requests may wait for the rate-limit service at once; one of our own holds them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tokenworks.plan.gateway_types import TenantPlan

from .budgets import budget, early_in_a_minute, failures, limits
from .engine import SimulatedEngine
from .harness import decided, engines_of, plan_for, running, until
from .simulated import LOOPBACK

pytestmark = pytest.mark.envoy

CALLERS = 24
WAITING = 2
"""For each question that is asked, one more may wait in Envoy for its connection."""
GRANTED = {
    "code": "OK",
    "currentLimit": {"requestsPerUnit": 1_000_000, "unit": "MINUTE"},
    "limitRemaining": 900_000,
    "durationUntilReset": "30s",
}


@dataclass
class HeldService:
    """Grants every question, but none before ``released``."""

    asked: list[int] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def answer(self, question: bytes) -> bytes:
        kinds = len(json.loads(question)["descriptors"])
        self.asked.append(kinds)
        self.released.wait(20)
        return json.dumps({"overallCode": "OK", "statuses": [GRANTED] * kinds}).encode()


@contextlib.contextmanager
def serving() -> Iterator[HeldService]:
    service = HeldService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = service.answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing: the test says what matters."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with Server((LOOPBACK, 0), Handler) as server:
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            service.released.set()
            server.shutdown()
            thread.join(10)


@pytest.mark.parametrize("most", [CALLERS, 4])
def test_as_many_requests_may_wait_for_their_budget_as_planned(
    most: int, engine: SimulatedEngine, tmp_path: Path
) -> None:
    """One question more counts as a service that is away, so each gateway keeps to its share."""
    tenant = TenantPlan(name="search", key_secrets=(), isolated=False, tokens=budget(1_000_000))
    early_in_a_minute(20)
    with serving() as service:
        plan = plan_for(
            [engines_of("alpha", engine.port)],
            tenants=(tenant,),
            rate_limit=limits(service.port, most),
            max_request_seconds=decided(30),
            stream_idle_seconds=decided(30),
        )
        with running(tmp_path, plan) as gateway:
            statuses: list[int] = []
            threads = [
                threading.Thread(
                    target=lambda: statuses.append(gateway.post({"model": "alpha"}).status)
                )
                for _ in range(CALLERS)
            ]
            for thread in threads:
                thread.start()
            until(
                lambda: len(service.asked) == most and len(statuses) >= CALLERS - WAITING * most,
                what="all that may ask wait, and others were served from the share",
            )
            assert len(service.asked) == most
            service.released.set()
            for thread in threads:
                thread.join(20)
            failed = failures(gateway)
        assert statuses == [200] * CALLERS
        assert (failed > 0) == (most < CALLERS)
