"""Where each request goes: chains, rules, canaries and shadows, in the order they match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tokenworks.environment.gateway import Canary, Gateway, Rule
from tokenworks.plan.gateway_types import GatewayRoute, Shadow, StaticAnswer, Step, Target

BYTES_PER_TOKEN = 4
"""A token of text is about four characters; rules by length compare sizes of whole bodies."""
ANY_SIZE = 1 << 40
"""Beyond the largest body that any gateway takes."""


def gateway_routes(section: Gateway, models: tuple[str, ...]) -> tuple[GatewayRoute, ...]:
    """All routes of all models; of those that fit a request, the first is taken.

    A route to a managed API comes twice: once for requests that may leave, once, with the steps
    that keep them here, for those that may not.
    """
    found: list[GatewayRoute] = []
    for model in models:
        found += _pinned(section, model)
        found += [_by_rule(section, rule) for rule in section.rules if rule.model == model]
        found.append(_by_default(section, model))
    return tuple(kept for route in found for kept in _kept_apart(route))


def static_answers(section: Gateway) -> tuple[StaticAnswer, ...]:
    """The sentences that end chains, by the model that is asked for."""
    return tuple(
        StaticAnswer(model=fallback.model, text=step.answer)
        for fallback in section.fallbacks
        for step in fallback.steps
        if step.answer is not None
    )


def _chain(section: Gateway, asked: str, first: str) -> tuple[Step, ...]:
    """The engines of ``first``, then what answers for it, for callers who asked for ``asked``."""
    steps = [Step(kind="model", name=first, rewrites=first != asked)]
    for fallback in section.fallbacks:
        if fallback.model != first:
            continue
        for step in fallback.steps:
            if step.model:
                steps.append(Step(kind="model", name=step.model, rewrites=step.model != asked))
            elif step.api:
                steps.append(Step(kind="api", name=step.api, rewrites=True))
            else:
                steps.append(Step(kind="answer", name=first, rewrites=True))
    return tuple(steps)


def _released(section: Gateway, canary: Canary) -> tuple[Step, ...]:
    """A release on trial, then the model's own chain without it."""
    trial = Step(kind="model", name=canary.release, rewrites=True)
    own = _chain(section, canary.model, canary.model)
    return (trial, *(step for step in own if step != trial))


def _pinned(section: Gateway, model: str) -> Iterator[GatewayRoute]:
    for canary in section.canaries:
        if canary.model == model:
            yield GatewayRoute(
                name=f"release/{canary.release}",
                model=model,
                targets=(Target(steps=_released(section, canary), weight=100),),
                release=canary.release,
                because=f"the caller asks for {canary.release} in x-release",
            )


def _by_rule(section: Gateway, rule: Rule) -> GatewayRoute:
    if rule.to.model:
        steps = _chain(section, rule.model, rule.to.model)
    else:
        steps = (Step(kind="api", name=str(rule.to.api), rewrites=True),)
    sizes = rule.tokens_from is not None or rule.tokens_below is not None
    start = BYTES_PER_TOKEN * (rule.tokens_from or 0)
    end = BYTES_PER_TOKEN * rule.tokens_below if rule.tokens_below else ANY_SIZE
    return GatewayRoute(
        name=f"rule/{rule.name}",
        model=rule.model,
        targets=(Target(steps=steps, weight=100),),
        tenants=rule.tenants or (),
        prompt_bytes=(start, end) if sizes else None,
        because=_rule_because(rule, start, end),
    )


def _rule_because(rule: Rule, start: int, end: int) -> str:
    whose = f"of {', '.join(rule.tenants)} " if rule.tenants else ""
    sizes = ""
    if rule.tokens_from:
        sizes = f"of {rule.tokens_from} tokens and more ({start} bytes) "
    if rule.tokens_below:
        sizes += f"below {rule.tokens_below} tokens ({end} bytes) "
    return f"rule {rule.name}: requests {whose}{sizes}go to {rule.to.model or rule.to.api}"


def _by_default(section: Gateway, model: str) -> GatewayRoute:
    canaries = [canary for canary in section.canaries if canary.model == model and canary.percent]
    own = _chain(section, model, model)
    rest = 100 - sum(canary.percent for canary in canaries)
    targets = [Target(steps=own, weight=rest)] if rest else []
    targets += [Target(steps=_released(section, one), weight=one.percent) for one in canaries]
    shares = [f"{rest} % to {model}", *(f"{one.percent} % to {one.release}" for one in canaries)]
    chain = ", then ".join(step.name if step.kind != "answer" else "an answer" for step in own)
    return GatewayRoute(
        name=f"model/{model}",
        model=model,
        targets=tuple(targets),
        because=f"{' and '.join(shares)}; in order: {chain}",
        shadow=next(
            (
                Shadow(
                    model=one.release,
                    percent=one.percent,
                    max_concurrent_requests=one.max_concurrent_requests,
                )
                for one in section.shadows
                if one.model == model
            ),
            None,
        ),
    )


def _kept_apart(route: GatewayRoute) -> Iterator[GatewayRoute]:
    """The route once for requests that must stay self-hosted and once for others, if it matters."""
    if all(step.self_hosted for target in route.targets for step in target.steps):
        yield route
        return
    here = tuple(
        replace(target, steps=tuple(step for step in target.steps if step.self_hosted))
        for target in route.targets
    )
    if all(target.steps for target in here):
        yield replace(
            route,
            name=f"{route.name}/restricted",
            targets=here,
            restricted=True,
            because=f"{route.because}; restricted requests skip managed APIs",
        )
    yield replace(route, restricted=False)
