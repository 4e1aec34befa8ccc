"""Routes, clusters and hops of the gateway as its templates take them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.plan.gateway_types import GatewayPlan, GatewayRoute, ManagedApi, Step
from tokenworks.templating import render

RELEASE_HEADER: Final = "x-release"
"""A caller who names a release here gets that one."""

PASSED_OVER_HEADER: Final = "x-llm-passed-over"
"""By this a hop says that the next step of a chain may try: its managed API has no place left."""

STEP_ATTEMPTS: Final = 2
"""How often a step of a chain is asked before the next one may: a replica that has just died must
not send callers to a smaller model, or to one that costs money, while another is healthy."""

UNLIMITED: Final = 1 << 31

_PRIVATE_HEADERS: Final = (
    "x-llm-model",
    "x-llm-stream",
    "x-llm-bytes",
    "x-llm-admitted",
    "x-llm-restricted",
    "x-tenant-id",
    "x-data-class",
    "x-release",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-client-cert",
    "x-envoy-internal",
    "x-envoy-external-address",
    "x-envoy-original-path",
    "x-envoy-expected-rq-timeout-ms",
    "cookie",
)
"""What a managed API need not know of a request."""

_UNANSWERED: Final = "connect-failure,refused-stream,reset-before-request"
_PASSED_ON: Final = f"{_UNANSWERED},retriable-status-codes,retriable-headers"


def label(text: str) -> str:
    """A name as a part of a metric's: Envoy ends a label at a dot."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)


def route_label(name: str) -> str:
    """A route's name as a part of a metric's."""
    return re.sub(r"[^A-Za-z0-9_/-]", "_", name)


def step_name(step: Step) -> str:
    """What the header `x-served-by` says of a step."""
    return f"{step.kind}/{step.name}"


def cluster_name(step: Step) -> str:
    """The cluster that a request for this step is given to."""
    if step.kind == "model" and not step.rewrites:
        return f"model/{step.name}"
    return f"hop/{step.kind}/{step.name}"


@dataclass(frozen=True, kw_only=True)
class EngineCluster:
    """One model's engines as Envoy counts them.

    There may be twice as many connections as requests: a request too many then gets a connection,
    meets the limit on requests and is refused at once, where it would otherwise wait unseen.
    """

    name: str
    statistics_name: str
    host: str
    port: int
    max_requests: int
    max_connections: int
    probe: Any


def engine_clusters(plan: GatewayPlan) -> list[EngineCluster]:
    """A cluster for each model's engines; named apart from Envoy's own."""
    return [
        EngineCluster(
            name=f"model/{model.model}",
            statistics_name=label(model.model),
            host=model.host,
            port=model.port,
            max_requests=model.max_concurrent_requests,
            max_connections=2 * model.max_concurrent_requests,
            probe=model.probe.value,
        )
        for model in plan.models
    ]


def hop_steps(plan: GatewayPlan) -> list[Step]:
    """Every step that needs a hop, once, in order of appearance."""
    found = {
        cluster_name(step): step
        for route in plan.routes
        for target in route.targets
        for step in target.steps
        if cluster_name(step).startswith("hop/")
    }
    for route in plan.routes:
        if route.shadow:
            step = Step(kind="model", name=route.shadow.model, rewrites=True)
            found.setdefault(cluster_name(step), step)
    return list(found.values())


def hops(plan: GatewayPlan, body_edits: str) -> list[dict[str, Any]]:
    """Listeners inside Envoy: each rewrites what its step needs and passes the request on."""
    apis = {api.name: api for api in plan.apis}
    texts = {answer.model: answer.text for answer in plan.answers}
    views = []
    for step in hop_steps(plan):
        view: dict[str, Any] = {
            "name": cluster_name(step),
            "step": step_name(step),
            "statistics_name": f"hop_{label(step.kind)}_{label(step.name)}",
            "rewrites": [],
            "credentials": [],
            "answers": [],
            "onward": [],
        }
        if step.kind == "answer":
            view["answers"] = list(_answers(step.name, texts[step.name]))
        elif step.kind == "api":
            view |= _to_api(apis[step.name], body_edits)
        else:
            view |= _to_model(step.name, body_edits)
        views.append(view)
    return views


def _to_model(model: str, body_edits: str) -> dict[str, Any]:
    source = _rewrite(body_edits, [("model", json.dumps(model))])
    onward = {"cluster": f"model/{model}", "prefix": "/v1/", "host": "engine", "removed": ()}
    return {"rewrites": [source], "onward": [onward]}


def _to_api(api: ManagedApi, body_edits: str) -> dict[str, Any]:
    """Only what the OpenAI API knows: no salt, and no usage beside every token."""
    source = _rewrite(
        body_edits,
        [("model", json.dumps(api.model))],
        dropped=["cache_salt", "stream_options"],
        stream_options='"stream_options":{"include_usage":true}',
        # Full by our own limit or by its: what follows in a chain is not full for that.
        passed_over=["429"],
    )
    onward = {
        "cluster": f"api/{api.name}",
        "prefix": f"{api.base_path}/",
        "host": api.host,
        "removed": _PRIVATE_HEADERS,
    }
    return {"rewrites": [source], "credentials": [api.name], "onward": [onward]}


def _rewrite(
    body_edits: str,
    changes: list[tuple[str, str]],
    *,
    dropped: Sequence[str] = (),
    stream_options: str = "",
    passed_over: Sequence[str] = (),
) -> str:
    return render(
        "gateway/rewrite.lua.j2",
        body_edits=body_edits,
        changes=changes,
        dropped=dropped,
        stream_options=stream_options,
        passed_over=passed_over,
        passed_over_header=PASSED_OVER_HEADER,
    )


_STREAMED: Final = {"name": "x-llm-stream", "string_match": {"exact": "true"}}


def _answers(model: str, text: str) -> Iterator[dict[str, Any]]:
    """The sentence in the shape that each path and each way of asking expects."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    for path, kind, whole, part in (
        ("/v1/chat/completions", "chat.completion", "message", "delta"),
        ("/v1/completions", "text_completion", None, None),
    ):
        content: dict[str, Any] = {"role": "assistant", "content": text}
        full = {whole: content} if whole else {"text": text}
        piece = {part: content} if part else {"text": text}
        base = {"id": "fallback", "object": kind, "created": 0, "model": model}
        streamed = {**base, "object": f"{kind}.chunk" if part else kind}
        choice = {"index": 0, "finish_reason": "stop"}
        events = [
            {**streamed, "choices": [{**choice, **piece}]},
            # Nothing was used, so what was reserved for it is given back.
            {**streamed, "choices": [], "usage": usage},
        ]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        yield _answer(path, [_STREAMED], "text/event-stream", body)
        body = json.dumps({**base, "choices": [{**choice, **full}], "usage": usage})
        yield _answer(path, [], "application/json", body)


def _answer(
    path: str, headers: list[dict[str, Any]], content_type: str, body: str
) -> dict[str, Any]:
    return {"path": path, "headers": headers, "content_type": content_type, "body": body}


def hop_clusters(plan: GatewayPlan) -> list[dict[str, Any]]:
    """The way to each hop, and a narrower one for the copies that a shadow gets.

    A managed API's limit is that of the cluster behind its hop: a hop that were full itself could
    not say that the next step may try.
    """
    limits = {f"model/{model.model}": model.max_concurrent_requests for model in plan.models}
    ways = [
        _hop_cluster(cluster_name(step), cluster_name(step), limits.get(f"{step.kind}/{step.name}"))
        for step in hop_steps(plan)
    ]
    shadows = {route.shadow.model: route.shadow for route in plan.routes if route.shadow}
    return ways + [
        _hop_cluster(f"shadow/{model}", f"hop/model/{model}", shadow.max_concurrent_requests)
        for model, shadow in shadows.items()
    ]


def _hop_cluster(name: str, listener: str, limit: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "listener": listener,
        "statistics_name": label(name),
        "max_requests": limit or UNLIMITED // 4,
    }


def api_clusters(plan: GatewayPlan) -> list[dict[str, Any]]:
    """A cluster for each managed API."""
    return [
        {
            "name": f"api/{api.name}",
            "statistics_name": f"api_{label(api.name)}",
            "host": api.host,
            "port": api.port,
            "max_requests": api.max_concurrent_requests,
        }
        for api in plan.apis
    ]


def _chain_name(steps: tuple[Step, ...]) -> str:
    return "chain/" + "+".join(cluster_name(step) for step in steps)


def _target_cluster(steps: tuple[Step, ...]) -> str:
    return cluster_name(steps[0]) if len(steps) == 1 else _chain_name(steps)


def chain_clusters(plan: GatewayPlan) -> list[dict[str, Any]]:
    """An aggregate cluster for each chain: its steps are tried in order."""
    chains = {
        _chain_name(target.steps): target.steps
        for route in plan.routes
        for target in route.targets
        if len(target.steps) > 1
    }
    return [
        {
            "name": name,
            "statistics_name": label(name),
            "clusters": [cluster_name(step) for step in steps],
            "max_requests": UNLIMITED,
        }
        for name, steps in chains.items()
    ]


def route_views(plan: GatewayPlan) -> list[dict[str, Any]]:
    """Each planned route with its matchers and clusters."""
    return [_route_view(route) for route in plan.routes]


def _route_view(route: GatewayRoute) -> dict[str, Any]:
    steps = max(len(target.steps) for target in route.targets)
    chained = steps > 1
    return {
        "name": route.name,
        "label": route_label(route.name),
        "headers": _matchers(route),
        "targets": [
            {"cluster": _target_cluster(target.steps), "weight": target.weight}
            for target in route.targets
        ],
        "retry_on": _PASSED_ON if chained else _UNANSWERED,
        "retries": STEP_ATTEMPTS * steps - 1 if chained else 1,
        "step_after": [STEP_ATTEMPTS] if chained else [],
        "shadows": [{"cluster": f"shadow/{route.shadow.model}", "percent": route.shadow.percent}]
        if route.shadow
        else [],
    }


def _matchers(route: GatewayRoute) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [_exact(":method", "POST"), _exact("x-llm-model", route.model)]
    if route.tenants:
        names = "|".join(re.escape(name) for name in route.tenants)
        found.append({"name": "x-tenant-id", "string_match": {"safe_regex": {"regex": names}}})
    if route.prompt_bytes:
        start, end = route.prompt_bytes
        found.append({"name": "x-llm-bytes", "range_match": {"start": start, "end": end}})
    if route.restricted is not None:
        marked = {"name": "x-llm-restricted", "present_match": True}
        found.append(marked | ({} if route.restricted else {"invert_match": True}))
    if route.release:
        found.append(_exact(RELEASE_HEADER, route.release))
    return found


def _exact(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"exact": value}}
