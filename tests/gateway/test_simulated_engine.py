"""The simulated engine speaks as trtllm-serve does, as fast and as broken as it is told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.gateway.simulated_engine.requests import FIELDS, InvalidRequestError, read_job
from tokenworks.gateway.simulated_engine.server import ADMIN_ROUTES, OPEN_ROUTES, ROUTES

from .simulated import CHAT, COMPLETIONS, Running, engine

JSON = "application/json"


@pytest.fixture
def running() -> Iterator[Running]:
    with engine() as it:
        yield it


# --- What it says --------------------------------------------------------------------------------


def test_a_whole_answer_has_the_shape_of_the_api_and_names_the_engine(running: Running) -> None:
    reply = running.chat("hello there")
    assert reply.status == 200
    (choice,) = reply.json["choices"]
    assert choice["message"]["content"].startswith("m-0:")
    assert choice["finish_reason"] == "stop"
    usage = reply.json["usage"]
    assert usage["completion_tokens"] == 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + 4


def test_equal_requests_in_equal_order_get_equal_bytes() -> None:
    def answers() -> list[bytes]:
        with engine() as it:
            return [it.chat("a").body, it.chat("b", stream=True).body, it.chat("a").body]

    assert answers() == answers()


def test_a_stream_carries_role_tokens_and_the_end_mark(running: Running) -> None:
    reply = running.chat(stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    role, *tokens, done = reply.events
    assert role["choices"][0]["delta"] == {"role": "assistant"}
    text = "".join(each["choices"][0]["delta"]["content"] for each in tokens)
    assert len(tokens) == 4
    assert text == running.chat().json["choices"][0]["message"]["content"]
    assert done == "[DONE]"
    assert not any("usage" in each for each in tokens), "nobody asked for it"


@pytest.mark.parametrize(
    ("options", "in_all", "at_the_end"),
    [
        ({"include_usage": True}, False, True),
        ({}, False, False),
        ({"include_usage": False, "continuous_usage_stats": True}, False, False),
        ({"continuous_usage_stats": True}, True, True),
    ],
)
def test_usage_comes_when_and_where_it_was_asked_for(
    running: Running, options: dict[str, bool], in_all: bool, at_the_end: bool
) -> None:
    *events, _ = running.chat(stream=True, stream_options=options).events
    last = events[-1]
    assert (last["choices"] == []) is at_the_end
    if at_the_end:
        assert last["usage"]["completion_tokens"] == 4
    tokens = [event for event in events[1:] if event["choices"]]
    assert all("usage" in event for event in tokens) is in_all
    if in_all:
        assert [event["usage"]["completion_tokens"] for event in tokens] == [1, 2, 3, 4]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_each_prompt_gets_as_many_answers_as_were_asked_for(running: Running, path: str) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    body = {"model": "m", "n": 2, **(asked if path == CHAT else {"prompt": ["one", "twotwo"]})}
    reply = running.post(path, body).json
    count = 2 if path == CHAT else 4
    assert [choice["index"] for choice in reply["choices"]] == list(range(count))
    assert reply["usage"]["completion_tokens"] == 4 * count


def test_a_stream_of_several_prompts_tells_the_usage_of_each_by_itself(running: Running) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"model": "m", "prompt": ["one", "twotwo"], "n": 2, "stream": True}
    reply = running.post(COMPLETIONS, {**body, "stream_options": options})
    *events, done = reply.events
    assert done == "[DONE]"
    ends = [event["usage"] for event in events if not event["choices"]]
    assert [(one["prompt_tokens"], one["completion_tokens"]) for one in ends] == [(1, 8), (2, 8)]
    running_usage = [
        (event["choices"][0]["index"], event["usage"]["completion_tokens"])
        for event in events
        if event["choices"]
    ]
    assert running_usage == [(index, so_far) for so_far in range(1, 5) for index in range(4)]


def test_numbers_of_tokens_are_one_prompt_together(running: Running) -> None:
    for prompt, count in (([1, 2, 3], 1), ([[1, 2], [3]], 2), ("one", 1)):
        reply = running.post(COMPLETIONS, {"model": "m", "prompt": prompt})
        assert len(reply.json["choices"]) == count


def test_the_requests_own_limit_ends_an_answer(running: Running) -> None:
    reply = running.chat(max_completion_tokens=2)
    assert reply.json["choices"][0]["finish_reason"] == "length"
    assert reply.json["usage"]["completion_tokens"] == 2
    assert running.chat(max_tokens=9).json["usage"]["completion_tokens"] == 4
    assert running.chat(max_tokens=9, ignore_eos=True).json["usage"]["completion_tokens"] == 9


def test_any_model_name_is_answered_and_given_back_as_the_real_one_does(running: Running) -> None:
    assert running.chat(model="other").json["model"] == "other"
    assert [each["id"] for each in running.request("GET", "/v1/models").json["data"]] == ["m"]


# --- What it refuses -----------------------------------------------------------------------------


def test_completions_know_no_cache_salt(running: Running) -> None:
    reply = running.post(COMPLETIONS, {"model": "m", "prompt": "x", "cache_salt": "a"})
    assert reply.status == 400
    assert "extra_forbidden" in reply.json["error"]
    assert "('body', 'cache_salt')" in reply.json["error"]
    assert running.chat(cache_salt="a").status == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"model": "m"}, "'missing', 'loc': ('body', 'messages')"),
        ({"model": 1, "messages": []}, "string_type"),
        ({"model": "m", "messages": "hi"}, "list_type"),
        ({"model": "m", "messages": [{"content": "hi"}]}, "('body', 'messages', 0, 'role')"),
        ({"model": "m", "messages": [], "stream": "yes"}, "bool_type"),
        ({"model": "m", "messages": [], "max_tokens": 1.5}, "int_type"),
        ({"model": "m", "messages": [], "max_tokens": True}, "int_type"),
        ({"model": "m", "messages": [], "simulate": {}}, "extra_forbidden"),
        ({"model": "m", "messages": [], "stream_options": {}}, "only be set if stream is true"),
        (
            {"model": "m", "messages": [], "stream": True, "stream_options": {"usage": True}},
            "('body', 'stream_options', 'usage')",
        ),
        (b"{", "json_invalid"),
        (b"[]", "model_attributes_type"),
        (b"\xff\xfe", "json_invalid"),
        (b"[" * 100_000, "json_invalid"),
    ],
)
def test_what_the_models_forbid_is_refused_with_fastapis_text(
    running: Running, body: dict[str, Any] | bytes, says: str
) -> None:
    reply = running.post(CHAT, body)
    assert (reply.status, reply.headers["content-type"]) == (400, JSON)
    assert says in reply.json["error"]


def test_a_body_of_another_type_is_no_json(running: Running) -> None:
    body = b'{"model":"m","messages":[]}'
    reply = running.request("POST", CHAT, body, {"content-type": "text/plain"})
    assert reply.status == 400
    assert "model_attributes_type" in reply.json["error"]


def test_the_two_paths_differ_in_their_fields_as_the_real_ones_do() -> None:
    assert set(FIELDS[CHAT]) - set(FIELDS[COMPLETIONS]) >= {"cache_salt", "messages", "tools"}
    assert set(FIELDS[COMPLETIONS]) - set(FIELDS[CHAT]) == {
        "prompt",
        "suffix",
        "return_context_logits",
        "detokenize",
    }


@given(st.binary(max_size=200))
def test_no_body_breaks_the_reading_of_jobs(body: bytes) -> None:
    with contextlib.suppress(InvalidRequestError):
        read_job(CHAT, JSON, body)


def test_unknown_paths_and_methods_are_refused_as_fastapi_does(running: Running) -> None:
    assert running.request("GET", "/nothing").json == {"detail": "Not Found"}
    reply = running.request("GET", CHAT)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_answers_whoever_asks(running: Running, method: str, path: str) -> None:
    body = b"{}" if method == "POST" else None
    reply = running.request(method, path, body, {"content-type": JSON})
    assert reply.status in (200, 400)
    known = f"{method} {path}" in running.state()["admin_calls"]
    assert known is ((method, path) in ADMIN_ROUTES and path != "/metrics")


def test_admin_routes_do_harm(running: Running) -> None:
    running.request("POST", "/release_memory")
    assert running.chat().status == 500
    assert running.request("GET", "/health_generate").status == 500
    running.request("POST", "/resume_memory")
    assert running.chat().status == 200


def test_routes_are_named_once() -> None:
    assert len(set(ROUTES)) == len(ROUTES) == len(OPEN_ROUTES) + len(ADMIN_ROUTES)


# --- Control -------------------------------------------------------------------------------------


def test_what_arrived_can_be_looked_at(running: Running) -> None:
    running.chat("prüfen", cache_salt="search")
    (seen,) = running.requests()
    assert (seen["method"], seen["path"]) == ("POST", CHAT)
    assert json.loads(seen["body"])["cache_salt"] == "search"
    assert ["content-type", JSON] in seen["headers"]
    running.request("DELETE", "/requests", port=running.control)
    assert running.requests() == []


def test_only_so_many_requests_are_kept(running: Running) -> None:
    running.settings(recorded_requests=2)
    for number in range(4):
        running.request("GET", f"/{number}")
    assert [each["path"] for each in running.requests()] == ["/2", "/3"]
    running.settings(recorded_requests=0)
    running.request("GET", "/version")
    assert running.requests() == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"speed": 1}, "speed: no such setting"),
        ({"fault": "flood"}, "fault: 'flood' is none of none, unavailable"),
        ({"healthy": 1}, "healthy: 1 is neither true nor false"),
        ({"max_batch_size": 0}, "max_batch_size: 0 is out of range"),
        ({"output_tokens": 1.5}, "output_tokens: 1.5 is no whole number"),
        ({"fault_share": 2}, "fault_share: 2 is out of range"),
        ({"inter_token_seconds": -1}, "inter_token_seconds: -1 is out of range"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_changes(
    running: Running, changes: dict[str, Any], says: str
) -> None:
    before = running.state()["settings"]
    reply = running.settings(first_token_seconds=9, **changes)
    assert reply.status == 400
    assert reply.json["error"].startswith(says)
    assert running.state()["settings"] == before


def test_the_engines_own_port_has_no_control(running: Running) -> None:
    assert running.request("GET", "/state").status == 404
    assert running.request("PATCH", "/settings", b'{"healthy":false}').status == 404
    assert running.state()["settings"]["healthy"] is True
