"""Callers of the gateway, over TLS on this machine: what they get, and what they do not."""

from __future__ import annotations

import json
import shlex
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.node.harness import MODEL, Onenode
from tokenworks.engines import tensorrt_llm
from tokenworks.gateway.simulated_engine.server import ROUTES

SERVED = {("POST", path) for path in tensorrt_llm.SERVED_PATHS}
PROBED = {tensorrt_llm.STARTED_PATH, tensorrt_llm.INFERENCE_PATH, tensorrt_llm.METRICS_PATH}
"""What kubelet and gateway ask an engine by themselves."""
PEAK_CONCURRENCY = 64
"""Of the model, as `stacks/onenode.yaml` has it."""
MINUTE_LEFT_SECONDS = 10


def text_of(events: list[str]) -> str:
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )


def test_the_line_that_up_prints_streams_an_answer(onenode: Onenode) -> None:
    line = onenode.said[onenode.said.index("curl ") :]
    done = subprocess.run(
        shlex.split(line.replace("\\\n", " ")), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("data: [DONE]")


def test_a_chat_is_answered_by_an_engine_pod(onenode: Onenode) -> None:
    answer = onenode.ask()
    assert answer.status == 200
    assert answer.json()["choices"][0]["message"]["content"].startswith(f"{MODEL}:")


def test_a_stream_arrives_while_the_engine_still_writes(onenode: Onenode) -> None:
    names = onenode.engines()
    for name in names:
        onenode.control(name, "PATCH", "/settings", {"inter_token_seconds": 0.5})
    try:
        events = onenode.ask(stream=True, max_tokens=8).events()
        first = next(events)
        assert json.loads(first)["choices"]
        assert len(onenode.busy(names)) == 1
        assert list(events)[-1] == "[DONE]"
    finally:
        for name in names:
            onenode.control(name, "PATCH", "/settings", {"inter_token_seconds": 0.01})


def test_the_openai_package_chats_and_streams(onenode: Onenode) -> None:
    openai = pytest.importorskip("openai", reason="the openai package was NOT tried: not installed")
    trust = ssl.create_default_context(cafile=onenode.authority)
    client = openai.OpenAI(
        base_url=f"https://localhost:{onenode.port}/v1",
        api_key=onenode.key(),
        http_client=openai.DefaultHttpxClient(verify=trust),
    )
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    pieces = client.chat.completions.create(**asked, stream=True)
    assert (
        "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == whole
    )


def test_curl_speaks_http_2_with_the_gateway(onenode: Onenode) -> None:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    done = subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--http2", "--output", "/dev/null"),
            *("--write-out", "%{http_version} %{http_code}", "--cacert", str(onenode.authority)),
            *("--header", f"authorization: Bearer {onenode.key()}"),
            *("--header", "content-type: application/json", "--data", json.dumps(asked)),
            f"https://localhost:{onenode.port}/v1/chat/completions",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "2 200", done.stderr


def test_no_route_of_an_engine_but_chats_is_there_with_a_key_or_without(onenode: Onenode) -> None:
    names = onenode.engines()
    for name in names:
        onenode.control(name, "DELETE", "/requests")
    tenant = onenode.key("assistant")
    for method, path in sorted({*ROUTES} - SERVED):
        statuses = {
            key: onenode.call(method, path, key=key, body={}).status for key in ("", tenant)
        }
        assert statuses[""] == 401, path
        # What a tenant may list is the gateway's own answer.
        assert statuses[tenant] in ({200, 404} if path == "/v1/models" else {404, 405}), path
    asked = {one["path"] for name in names for one in onenode.control(name, "GET", "/requests")}
    assert asked <= PROBED


@pytest.mark.parametrize("key", ["", "tw-made-up"])
def test_nobody_enters_without_a_key_of_a_tenant(onenode: Onenode, key: str) -> None:
    assert onenode.ask(key=key).status == 401


def test_a_model_whose_nodes_are_simulated_is_answered_by_its_fallback(onenode: Onenode) -> None:
    answer = onenode.ask(model="qwen3-32b")
    assert answer.status == 200
    assert answer.response.getheader("x-served-by") == f"model/{MODEL}"


def test_as_many_callers_at_once_as_planned_are_answered(onenode: Onenode) -> None:
    """Every one is inside at the same moment, each on a connection of its own."""
    names = onenode.engines()
    callers = range(PEAK_CONCURRENCY)
    with (
        onenode.behaving(names[0], first_token_seconds=3.0),
        onenode.behaving(names[1], first_token_seconds=3.0),
        ThreadPoolExecutor(len(callers)) as pool,
    ):
        # This one has no limit on requests.
        key = onenode.key("assistant")
        answers = [pool.submit(lambda: onenode.ask(key=key, max_tokens=1).status) for _ in callers]
        at_once = []
        while not all(answer.done() for answer in answers):
            at_once.append(sum(onenode.control(name, "GET", "/state")["running"] for name in names))
    assert [answer.result() for answer in answers] == [200] * len(callers)
    assert max(at_once) >= len(callers)


def test_budgets_are_one_over_both_gateways(onenode: Onenode) -> None:
    begin_a_minute()
    statuses = [onenode.ask(key=onenode.key("small")).status for _ in range(20)]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == 5
    used = []
    for _ in range(20):
        # Without a limit, of which the gateway then makes its tenant's.
        answer = onenode.ask(key=onenode.key("short"), ignore_eos=True)
        body = answer.json()
        if answer.status == 200:
            used.append(body["usage"]["total_tokens"])
        else:
            assert (answer.status, body["error"]["code"]) == (429, "tokens_per_minute")
    assert len(used) < 20
    assert 100 < sum(used) <= 200
    assert onenode.ask().status == 200


def begin_a_minute() -> None:
    """Budgets are those of the clock's minutes: leave time for a test within one."""
    left = 60 - time.time() % 60
    if left < MINUTE_LEFT_SECONDS:
        time.sleep(left)
