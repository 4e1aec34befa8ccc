"""Progress: what is done, what is awaited, and for how long."""

from __future__ import annotations

from typing import Any

from pulumi.automation import EngineEvent

from tokenworks.operations.progress import Progress, Tracker, advance, plain


def step(name: str, *, op: str = "create", custom: bool = True) -> dict[str, Any]:
    urn = f"urn:pulumi:local-serving::tokenworks::kubernetes:core/v1:Service::{name}"
    state = {"type": "t", "urn": urn, "id": "", "parent": "", "provider": "", "custom": custom}
    return {"op": op, "urn": urn, "type": "t", "provider": "", "new": state}


def event(kind: str, metadata: dict[str, Any]) -> EngineEvent:
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, kind: {"metadata": metadata}})


def after(*events: EngineEvent) -> Progress:
    progress = Progress(stack="local-serving", planned=3)
    for seconds, one in enumerate(events):
        progress = advance(progress, one, float(seconds))
    return progress


def test_a_resource_under_way_is_awaited_since_it_began() -> None:
    progress = after(event("resourcePreEvent", step("gateway-service")))
    assert progress.line(7.0) == "local-serving: 0 of 3 resources, awaiting gateway-service (7 s)"


def test_a_finished_resource_is_counted_and_no_longer_awaited() -> None:
    began, ended = event("resourcePreEvent", step("a")), event("resOutputsEvent", step("a"))
    assert after(began, ended).line(9.0) == "local-serving: 1 of 3 resources"


def test_a_replaced_resource_is_counted_once_though_it_takes_several_steps() -> None:
    steps = [event("resOutputsEvent", step("a", op=op)) for op in ("create-replacement", "replace")]
    assert after(*steps).line(9.0) == "local-serving: 1 of 3 resources"


def test_a_failed_resource_is_not_counted() -> None:
    began, failed = event("resourcePreEvent", step("a")), event("resOpFailedEvent", step("a"))
    assert after(began, failed).line(9.0) == "local-serving: 0 of 3 resources"


def test_components_and_unchanged_resources_are_not_awaited() -> None:
    component = event("resourcePreEvent", step("server", custom=False))
    unchanged = event("resourcePreEvent", step("namespace", op="same"))
    assert after(component, unchanged).awaited == ()


def test_a_long_list_of_awaited_resources_is_cut_short() -> None:
    progress = after(*(event("resourcePreEvent", step(name)) for name in "abcde"))
    assert progress.line(5.0).endswith("awaiting a (5 s), b (4 s), c (3 s) and 2 more")


def diagnostic(severity: str, *, ephemeral: bool) -> EngineEvent:
    text = "<{%fg 3%}>warning: <{%reset%}>look out\n"
    body = {"message": text, "color": "raw", "severity": severity, "ephemeral": ephemeral}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, "diagnosticEvent": body})


def test_warnings_are_kept_and_states_on_the_way_are_not() -> None:
    tracker = Tracker("local-serving", None)
    tracker(diagnostic("warning", ephemeral=False))
    tracker(diagnostic("warning", ephemeral=True))
    tracker(diagnostic("info", ephemeral=False))
    assert tracker.warnings == ["warning: look out"]


def test_colour_marks_are_not_shown() -> None:
    assert plain("<{%reset%}>plain<{%fg 1%}>") == "plain"
