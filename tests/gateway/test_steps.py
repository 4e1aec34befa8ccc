"""What a step of a chain does when it is full or broken, before a simulated managed API."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tokenworks.plan.gateway_types import ManagedApi, StaticAnswer, Step

from .harness import (
    Gateway,
    Stream,
    certificate,
    decided,
    engines_of,
    free_port,
    model_step,
    plan_for,
    refusal,
    route_to,
    running,
    until,
)
from .simulated import QUICK, Reply, Running
from .simulated import engine as simulated

pytestmark = pytest.mark.envoy

API = Step(kind="api", name="cloud", rewrites=True)
ANSWER = Step(kind="answer", name="answered", rewrites=True)
SENTENCE = "Ask again in a minute."
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    """The certificate of the managed API, and its side of TLS."""
    folder = tmp_path_factory.mktemp("cloud")
    files = certificate("localhost")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return files["tls.crt"], context


@pytest.fixture(scope="module")
def cloud(secret: tuple[str, ssl.SSLContext]) -> Iterator[Running]:
    with simulated(QUICK, "cloud", secret[1]) as api:
        yield api


@pytest.fixture(scope="module")
def own() -> Iterator[Running]:
    with simulated(QUICK, "own-0") as engine:
        yield engine


@pytest.fixture(scope="module")
def started(
    cloud: Running,
    own: Running,
    secret: tuple[str, ssl.SSLContext],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """``answered`` and ``bare`` have no engines and a managed API of one place; ``own`` works."""
    api = ManagedApi(
        name="cloud",
        host="localhost",
        port=cloud.port,
        base_path="/v1",
        model="m",
        credential_secret="key-cloud",  # noqa: S106  (the name of one)
        max_concurrent_requests=1,
    )
    plan = plan_for(
        [
            engines_of("answered", free_port()),
            engines_of("bare", free_port()),
            engines_of("own", own.port),
        ],
        apis=(api,),
        answers=(StaticAnswer(model="answered", text=SENTENCE),),
        routes=(
            route_to("answered", model_step("answered"), API, ANSWER),
            route_to("bare", model_step("bare"), API),
            route_to("own"),
        ),
        max_request_seconds=decided(30),
        stream_idle_seconds=decided(30),
    )
    root = tmp_path_factory.mktemp("steps")
    with running(root, plan, credentials={"cloud": "sk"}, trusted_ca=secret[0]) as gateway:
        yield gateway


@pytest.fixture
def stepped(started: Gateway, cloud: Running, own: Running) -> Gateway:
    """The running gateway, before engines that work."""
    for engine in (cloud, own):
        engine.settings(**QUICK.record())
    return started


def ask(gateway: Gateway, model: str, **fields: Any) -> Reply:
    return gateway.post({"model": model, "messages": MESSAGES, **fields})


def test_a_managed_api_answers_whole_and_in_a_stream(stepped: Gateway) -> None:
    """Whatever the hop takes out of a request, a route must still be found for it."""
    reply = ask(stepped, "bare")
    assert (reply.status, reply.headers["x-served-by"]) == (200, "api/cloud")
    assert reply.json["choices"][0]["message"]["content"].startswith("cloud:")
    stream = Stream()
    stepped.stream({"model": "bare", "messages": MESSAGES}, stream)
    assert not stream.broken


class _Held:
    """Requests that are inside the managed API until it is let go."""

    def __init__(self, gateway: Gateway, cloud: Running) -> None:
        cloud.settings(first_token_seconds=1.0)
        self.status: int | None = None

        def call() -> None:
            self.status = ask(gateway, "bare").status

        self._thread = threading.Thread(target=call)
        self._thread.start()
        until(lambda: cloud.state()["running"] == 1, what="a request inside the managed API")

    def end(self) -> int | None:
        self._thread.join(20)
        return self.status


def test_a_full_managed_api_is_passed_over(stepped: Gateway, cloud: Running) -> None:
    """What follows it is not full for that reason; here it is a sentence and costs nothing."""
    held = _Held(stepped, cloud)
    reply = ask(stepped, "answered")
    assert (reply.status, reply.headers["x-served-by"]) == (200, "answer/answered")
    assert reply.json["choices"][0]["message"]["content"] == SENTENCE
    assert held.end() == 200
    assert ask(stepped, "answered").headers["x-served-by"] == "api/cloud"


def test_a_full_managed_api_says_so_where_nothing_follows(stepped: Gateway, cloud: Running) -> None:
    held = _Held(stepped, cloud)
    reply = ask(stepped, "bare")
    assert refusal(reply) == (429, "queue_full")
    assert reply.headers["retry-after"] == "2"
    assert not [name for name in reply.headers if name.startswith("x-llm-")]
    assert held.end() == 200


def test_an_engine_s_503_is_told_in_json_where_nothing_follows(
    stepped: Gateway, own: Running
) -> None:
    """The engine says it in plain text, which no client's error handling reads."""
    own.settings(fault="unavailable", fault_requests=2)
    said = own.chat()
    assert (said.status, said.headers["content-type"]) == (503, "text/plain; charset=utf-8")
    reply = ask(stepped, "own")
    assert refusal(reply) == (503, "engine_error")
    assert reply.headers["retry-after"] == "5"
    assert int(reply.headers["content-length"]) == len(reply.body)


def test_an_engine_s_own_json_error_is_passed_on_as_it_is(stepped: Gateway, own: Running) -> None:
    own.settings(fault="error", fault_requests=2)
    reply = ask(stepped, "own")
    assert (reply.status, reply.body) == (500, own.chat().body)
    own.settings(fault="none")
    refused = ask(stepped, "own", no_such_field=1)
    assert (refused.status, refused.headers["content-type"]) == (400, "application/json")
    assert "no_such_field" in refused.json["error"]


def test_a_request_is_answered_as_before_once_an_engine_is_well_again(
    stepped: Gateway, own: Running
) -> None:
    own.settings(fault="unavailable", fault_requests=1)
    assert [ask(stepped, "own").status for _ in range(3)] == [503, 200, 200]
