"""Answers that an engine would compress, and streams that end without their last blank line."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tokenworks.plan.gateway_types import ManagedApi, Step

from .engine import SimulatedEngine
from .harness import (
    Gateway,
    engines_of,
    free_port,
    model_step,
    plan_for,
    refusal,
    route_to,
    running,
)
from .managed import API_KEY, ManagedService
from .simulated import COMPLETIONS, LOOPBACK

pytestmark = pytest.mark.envoy

USED = {"prompt_tokens": 5, "completion_tokens": 50}
WHOLE = json.dumps({"choices": [{"index": 0}], "usage": USED}).encode()
EVENTS = b"".join(
    b'data: {"choices":[{"index":0,"delta":{"content":"word %d"}}],"usage":null}\n\n' % number
    for number in range(50)
)
USAGE = b"data: " + json.dumps({"choices": [], "usage": USED}).encode() + b"\n\n"
DONE = b"data: [DONE]\n\n"


@dataclass
class Compressing:
    """An engine behind something that compresses whatever it is allowed to, or told to."""

    allowed: list[str] = field(default_factory=list)
    port: int = 0


def answer_to(body: dict[str, Any]) -> tuple[str, bytes]:
    if not body.get("stream"):
        return "application/json", WHOLE
    text = EVENTS + DONE + USAGE if body.get("usage_last") else EVENTS + USAGE + DONE
    return "text/event-stream", text.removesuffix(b"\n" * body.get("cut", 0))


@pytest.fixture(scope="module")
def compressing() -> Iterator[Compressing]:
    engine = Compressing()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            allowed = self.headers.get("accept-encoding", "*")
            engine.allowed.append(allowed)
            kind, text = answer_to(body)
            self.send_response(body.get("status", 200))
            self.send_header("content-type", body.get("kind", kind))
            if body.get("stubborn") or allowed != "identity":
                text = gzip.compress(text)
                self.send_header("content-encoding", "gzip")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n" % len(text) + text + b"\r\n0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Nothing: the test says what matters."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        engine.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield engine
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture(scope="module")
def before(compressing: Compressing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The engine under its own name, and behind a hop as what stands in for another."""
    plan = plan_for(
        [engines_of("alpha", compressing.port), engines_of("dead", free_port())],
        routes=(
            route_to("alpha"),
            route_to("dead", model_step("dead"), model_step("alpha", rewrites=True)),
        ),
    )
    with running(tmp_path_factory.mktemp("encodings"), plan) as gateway:
        yield gateway


def used(gateway: Gateway) -> float:
    return sum(
        float(line.split()[-1])
        for line in gateway.plain("GET", "/stats/prometheus").body.decode().splitlines()
        if "envoy_gateway_tokens{" in line
    )


@pytest.mark.parametrize("accepted", ["gzip", "br;q=1.0, gzip;q=0.8, *;q=0.1", "*"])
@pytest.mark.parametrize("model", ["alpha", "dead"], ids=["engine", "hop"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_a_caller_would_take_compressed_arrives_readable_and_is_counted(
    before: Gateway, compressing: Compressing, stream: bool, model: str, accepted: str
) -> None:
    """Client libraries accept gzip unasked; usage could not be read from it."""
    counted = used(before)
    compressing.allowed.clear()
    reply = before.post({"model": model, "stream": stream}, headers={"accept-encoding": accepted})
    assert reply.status == 200
    assert "content-encoding" not in reply.headers
    assert reply.body == (EVENTS + DONE if stream else WHOLE)
    assert compressing.allowed == ["identity"]
    assert used(before) - counted == sum(USED.values())


def test_a_stream_that_is_compressed_all_the_same_arrives_whole(before: Gateway) -> None:
    reply = before.post({"model": "alpha", "stream": True, "stubborn": True})
    assert reply.headers["content-encoding"] == "gzip"
    assert gzip.decompress(reply.body) == EVENTS + USAGE + DONE


def test_a_managed_api_is_not_asked_to_compress_either(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    (tmp_path / "cloud").mkdir()
    with ManagedService(tmp_path / "cloud") as cloud:
        api = ManagedApi(
            name="cloud",
            host="localhost",
            port=cloud.port,
            base_path="/v1",
            model="cloud-model",
            credential_secret="key-cloud",  # noqa: S106  (the name of one)
            max_concurrent_requests=8,
        )
        plan = plan_for(
            [engines_of("alpha", engine.port)],
            apis=(api,),
            routes=(route_to("alpha", Step(kind="api", name="cloud", rewrites=True)),),
        )
        credentials = {"cloud": API_KEY}
        with running(tmp_path, plan, credentials=credentials, trusted_ca=cloud.chain) as gateway:
            asked = gateway.post({"model": "alpha"}, headers={"accept-encoding": "gzip"})
        assert asked.status == 200
        assert [one.headers["accept-encoding"] for one in cloud.received] == ["identity"]


@pytest.mark.parametrize("cut", [1, 2], ids=["no blank line", "no line end"])
def test_the_last_event_of_a_stream_arrives_without_its_blank_line(
    before: Gateway, cut: int
) -> None:
    reply = before.post({"model": "alpha", "stream": True, "cut": cut})
    assert reply.body == EVENTS + DONE.removesuffix(b"\n" * cut)


def test_usage_that_nobody_asked_for_is_hidden_without_its_blank_line_too(
    before: Gateway,
) -> None:
    counted = used(before)
    reply = before.post({"model": "alpha", "stream": True, "usage_last": True, "cut": 2})
    assert reply.body == EVENTS + DONE
    assert used(before) - counted == sum(USED.values())


def test_the_usage_of_several_prompts_is_counted_without_its_blank_line_too(
    before: Gateway,
) -> None:
    counted = used(before)
    body = {"model": "alpha", "prompt": ["a", "b"], "stream": True, "usage_last": True, "cut": 1}
    assert before.post(body, path=COMPLETIONS).body == EVENTS + DONE
    assert used(before) - counted == sum(USED.values())


def test_a_compressed_page_of_an_error_is_put_into_the_shape_of_the_api(before: Gateway) -> None:
    """What was in it is not passed on, so how it was packed must not be either."""
    reply = before.post({"model": "alpha", "stubborn": True, "status": 500, "kind": "text/html"})
    assert refusal(reply) == (500, "engine_error")
    assert "content-encoding" not in reply.headers
