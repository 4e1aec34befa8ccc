"""What admission does with each request, as the filter that decides about it reads it."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.plan.gateway_budgets import Ways, leads_elsewhere, longest_known
from tokenworks.plan.gateway_types import Budget, GatewayPlan, TenantPlan
from tokenworks.render_routes import hop_steps, label, step_name
from tokenworks.templating import render

CHAT_PATH: Final = "/v1/chat/completions"
"""The path whose requests can carry a cache salt."""

INVALID_BODY: Final = (
    "The request body must be one JSON object that names a model, in UTF-8 and without duplicate "
    "keys."
)
"""What is said of a body that is no strict JSON, by the route or by admission."""

ACCOUNTING_TOKENS: Final = 16
"""A running stream is counted whenever it has grown by as many tokens; the rest at its end."""

TAIL_BYTES: Final = 512
"""How much of a chunk is looked at again with the next, since usage may be cut in two."""

LONGEST_EVENT_BYTES: Final = 65_536
"""An event that does not end within as many bytes is passed on as it comes."""

BYTES_PER_TOKEN: Final = 4
"""A token is about four characters of text; what a prompt reserves follows from its size."""

BODY_HEADERS: Final = (
    ("x-llm-stream", "stream"),
    ("x-llm-max-tokens", "max_tokens"),
    ("x-llm-max-completion-tokens", "max_completion_tokens"),
    ("x-llm-n", "n"),
    ("x-llm-best-of", "best_of"),
    ("x-llm-include-usage", "stream_options:include_usage"),
)
"""Members of a request that decide something, and the header that each is read into."""

_LONGER_THAN_ANY: Final = 1 << 31
"""Tokens of a sequence whose length is not known, since a managed API may answer."""

HARMLESS_CLASSES: Final = ("internal", "public")
"""Values of ``x-data-class``, in small letters, with which a request may go to a managed API. Every
other keeps it here, whatever it means: ``confidential`` as well as a misspelt ``restricted``."""

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""Members by which a caller limits its answer. Engines know the first on every path; the second is
another name for it, of chats alone (``tensorrt_llm/serve/openai_protocol.py``)."""

_KEPT_HEADERS: Final = ("x-llm-stream",)
"""Those that later steps read as well."""


def admission_file(plan: GatewayPlan, body_edits: str) -> str:
    """``admission.yaml``: rights and budgets of every tenant, in the filter that decides."""
    tenants = [
        {
            "name": tenant.name,
            "isolated": tenant.isolated,
            "models": tenant.models,
            "default_max_tokens": tenant.default_max_tokens or 0,
            "budgets": budgets_of(tenant),
        }
        for tenant in plan.tenants
    ]
    source = render(
        "gateway/admission.lua.j2",
        body_edits=body_edits,
        budgets=_budget_part(plan),
        answers=render(
            "gateway/answers.lua.j2",
            accounting_tokens=ACCOUNTING_TOKENS,
            tail_bytes=TAIL_BYTES,
            longest_event_bytes=LONGEST_EVENT_BYTES,
            steps=[step_name(step) for step in hop_steps(plan)],
        ),
        chat_path=CHAT_PATH,
        limit_headers=[(name, member) for name, member in BODY_HEADERS if member in _LIMITS],
        invalid_body=INVALID_BODY,
        tenants=tenants,
        models=_models(plan),
        restricted_tenants=[tenant.name for tenant in plan.tenants if tenant.restricted],
        harmless_classes=HARMLESS_CLASSES,
        bytes_per_token=BYTES_PER_TOKEN,
    )
    return render("gateway/admission.yaml.j2", source=source)


def _models(plan: GatewayPlan) -> list[dict[str, Any]]:
    """What a request for each model reserves at most, wherever its routes lead."""
    ways = Ways(models=plan.models, apis=plan.apis, routes=plan.routes)
    views = []
    for model in plan.models:
        places = ways.of(model.model)
        longest = longest_known(places)
        views.append(
            {
                "model": model.model,
                "label": label(model.model),
                "longest_tokens": longest,
                "most_tokens": _LONGER_THAN_ANY if leads_elsewhere(places) else longest,
                "default_tokens": model.default_tokens,
            }
        )
    return views


def _budget_part(plan: GatewayPlan) -> str:
    service = plan.rate_limit
    return render(
        "gateway/budgets.lua.j2",
        counters=plan.counters.value,
        timeout_milliseconds=service.timeout_milliseconds.value if service else 0,
        down_milliseconds=1000 * service.down_seconds.value if service else 0,
    )


def budgets_of(tenant: TenantPlan) -> list[tuple[str, Budget]]:
    """The budgets that a tenant has, each with its kind."""
    found = (("requests", tenant.requests), ("tokens", tenant.tokens))
    return [(kind, budget) for kind, budget in found if budget]


def working_headers() -> list[str]:
    """Headers that admission alone needs; nobody behind the gateway gets them."""
    return [name for name, _ in BODY_HEADERS if name not in _KEPT_HEADERS]
