"""The life of an engine pod: when it is ready, when it is started again, what a crash does."""

from __future__ import annotations

import http.client

from tests.node.harness import ENGINES, Onenode


def test_an_engine_that_infers_nothing_gets_no_requests_and_is_not_restarted(
    onenode: Onenode,
) -> None:
    name, other = onenode.engines()
    restarts = onenode.restarts(name)
    with onenode.behaving(name, fault="error"):
        onenode.until(lambda: not onenode.ready(name), "an engine that fails is not ready")
        onenode.control(other, "DELETE", "/requests")
        assert [onenode.ask().status for _ in range(4)] == [200] * 4
        paths = [each["path"] for each in onenode.control(other, "GET", "/requests")]
        assert paths.count("/v1/chat/completions") == 4
    onenode.until(lambda: onenode.ready(name), "an engine that infers again is ready")
    assert onenode.restarts(name) == restarts


def test_an_engine_that_is_ill_and_one_that_hangs_are_started_again(onenode: Onenode) -> None:
    """One that hangs is killed: it would take longer than anybody waits here to drain."""
    onenode.settle()
    ill, hung = onenode.engines()
    before = {name: onenode.restarts(name) for name in (ill, hung)}
    onenode.control(ill, "PATCH", "/settings", {"healthy": False})
    onenode.freeze(ENGINES, hung, "engine")
    onenode.until(
        lambda: all(onenode.restarts(name) > was for name, was in before.items()),
        "both are started again",
    )
    onenode.settle()
    assert onenode.engines() == [ill, hung]
    assert onenode.control(ill, "GET", "/state")["settings"]["healthy"] is True
    assert onenode.ask().status == 200


def test_a_stream_whose_engine_crashes_ends_with_an_error_and_the_next_is_answered(
    onenode: Onenode,
) -> None:
    onenode.settle()
    names = onenode.engines()
    for name in names:
        onenode.control(name, "PATCH", "/settings", {"inter_token_seconds": 1.0})
    events = onenode.ask(stream=True).events()
    next(events)
    (busy,) = onenode.busy(names)
    (idle,) = set(names) - {busy}
    onenode.kill(ENGINES, busy, "engine")
    try:
        rest = list(events)
    except (OSError, http.client.HTTPException):
        rest = []
    assert "[DONE]" not in rest
    onenode.control(idle, "PATCH", "/settings", {"inter_token_seconds": 0.01})
    assert onenode.ask().status == 200
    onenode.settle()
