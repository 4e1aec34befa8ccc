"""The life of an engine pod: when it is ready, and what a crash does."""

from __future__ import annotations

from tests.node.harness import ENGINES, Onenode


def test_an_engine_that_infers_nothing_gets_no_requests_and_is_not_restarted(
    onenode: Onenode,
) -> None:
    name, other = onenode.engines()
    restarts = onenode.restarts(ENGINES, name)
    with onenode.behaving(name, fault="error"):
        onenode.until(lambda: not onenode.ready(name), "an engine that fails is not ready")
        onenode.control(other, "DELETE", "/requests")
        assert [onenode.ask().status for _ in range(4)] == [200] * 4
        paths = [each["path"] for each in onenode.control(other, "GET", "/requests")]
        assert paths.count("/v1/chat/completions") == 4
    onenode.until(lambda: onenode.ready(name), "an engine that infers again is ready")
    assert onenode.restarts(ENGINES, name) == restarts


def test_a_stream_whose_engine_crashes_ends_with_an_error_and_the_next_is_answered(
    onenode: Onenode,
) -> None:
    onenode.settle()
    names = onenode.engines()
    for name in names:
        onenode.control(name, "PATCH", "/settings", {"inter_token_seconds": 1.0})
    answer = onenode.ask(stream=True)
    next(answer.events())
    (busy,) = onenode.busy(names)
    (idle,) = set(names) - {busy}
    onenode.kill(ENGINES, busy, "engine")
    assert "error" in answer.ending().lower()
    onenode.control(idle, "PATCH", "/settings", {"inter_token_seconds": 0.01})
    assert onenode.ask().status == 200
