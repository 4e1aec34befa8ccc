"""Everything that forbids a gateway as it was asked for, each at its key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tokenworks.environment.gateway import FallbackStep, Gateway, Place, Rule
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.environment.yaml_source import KeyPath, YamlSource, spell
from tokenworks.errors import Problem
from tokenworks.plan.gateway_images import ENVOY, RATE_LIMIT, STORE
from tokenworks.plan.gateway_pods import CALLER_CONNECTIONS
from tokenworks.plan.gateway_routes import ANY_SIZE


def crowded(loaded: LoadedEnvironment, admitted: Mapping[str, int]) -> Iterable[Problem]:
    """Whether callers have fewer connections than requests: HTTP/1.1 takes one for each.

    ``admitted`` is for each model how many requests one gateway lets in at once.
    """
    requests = sum(admitted.values())
    if requests > CALLER_CONNECTIONS:
        most = max(admitted, key=lambda name: admitted[name])
        index = next(i for i, one in enumerate(loaded.environment.models) if one.name == most)
        yield loaded.source.problem(
            ("models", index, "peak_concurrency"),
            given=str(loaded.environment.models[index].peak_concurrency),
            reason=f"makes {requests} requests at once in one gateway, which takes "
            f"{CALLER_CONNECTIONS} connections of callers",
            remedy="give some models an environment of their own",
        )


def gateway_problems(loaded: LoadedEnvironment, lock: Lock) -> Iterable[Problem]:
    """Each value of the gateway's section that cannot be meant, with what to write instead."""
    section = loaded.environment.gateway
    found = _Problems(
        source=loaded.source,
        section=section,
        lengths={model.name: model.max_model_len_tokens for model in loaded.environment.models},
    )
    yield from _images(found, lock)
    yield from found.tenants()
    yield from found.defaults()
    yield from found.secrets()
    yield from found.fallbacks()
    yield from found.cycles()
    yield from found.canaries()
    yield from found.shadows()
    yield from found.rules()


def _images(found: _Problems, lock: Lock) -> Iterator[Problem]:
    budgets = any(one.requests_per_minute or one.tokens_per_minute for one in found.section.tenants)
    for image in (ENVOY, RATE_LIMIT, STORE) if budgets else (ENVOY,):
        if lock.find(image.repository, image.tag) is None:
            yield found.at(
                (),
                given=f"{image.repository}:{image.tag}",
                reason="has no digest in images.lock",
                remedy="add the tag with its digest and where it was read",
            )


@dataclass(frozen=True, kw_only=True)
class _Problems:
    """The gateway's section beside what it may refer to: models with their longest sequence."""

    source: YamlSource
    section: Gateway
    lengths: dict[str, int]

    def at(self, path: KeyPath, *, given: str | None, reason: str, remedy: str) -> Problem:
        return self.source.problem(("gateway", *path), given=given, reason=reason, remedy=remedy)

    def tenants(self) -> Iterator[Problem]:
        for index, tenant in enumerate(self.section.tenants):
            for place, model in enumerate(tenant.models or ()):
                yield from self._model(("tenants", index, "models", place), model)
            if tenant.api_keys is None and self.section.jwt is None:
                yield self.at(
                    ("tenants", index, "api_keys"),
                    given=None,
                    reason="is missing, so nobody can be this tenant",
                    remedy="add a key, or gateway.jwt for tokens of an identity provider",
                )

    def defaults(self) -> Iterator[Problem]:
        """Whether requests that state no limit still fit, into the models and into the budget."""
        for index, tenant in enumerate(self.section.tenants):
            most = tenant.default_max_tokens
            if most is None:
                continue
            usable = [name for name in tenant.models or self.lengths if name in self.lengths]
            shortest = min(usable, key=lambda name: self.lengths[name], default=None)
            path: KeyPath = ("tenants", index, "default_max_tokens")
            if shortest is not None and most >= self.lengths[shortest]:
                yield self.at(
                    path,
                    given=str(most),
                    reason=f"leaves no place for a prompt: {shortest} serves at most "
                    f"{self.lengths[shortest]} tokens, prompt and answer together",
                    remedy="give the length of an answer",
                )
            elif tenant.tokens_per_minute and most >= tenant.tokens_per_minute:
                yield self.at(
                    path,
                    given=str(most),
                    reason=f"is not below tokens_per_minute ({tenant.tokens_per_minute}), so every "
                    "request that states no limit would be refused",
                    remedy="lower it, or raise the budget",
                )

    def secrets(self) -> Iterator[Problem]:
        """Each secret has one meaning: a key of two tenants would be either of them."""
        owners: dict[str, str] = {}
        for path, name in self._secret_names():
            owner = spell(("gateway", *path))
            if name in owners:
                yield self.at(
                    path,
                    given=None,
                    reason=f"names a secret that {owners[name]} names already",
                    remedy="give each its own secret",
                )
            owners.setdefault(name, owner)

    def _secret_names(self) -> Iterator[tuple[KeyPath, str]]:
        for index, tenant in enumerate(self.section.tenants):
            for place, key in enumerate(tenant.api_keys or ()):
                yield ("tenants", index, "api_keys", place), key.pulumi_secret
        for index, api in enumerate(self.section.apis):
            yield ("apis", index, "credential"), api.credential.pulumi_secret

    def fallbacks(self) -> Iterator[Problem]:
        seen: list[str] = []
        for index, fallback in enumerate(self.section.fallbacks):
            path: KeyPath = ("fallbacks", index)
            yield from self._model((*path, "model"), fallback.model)
            if fallback.model in seen:
                yield self._twice((*path, "model"), fallback.model, "has fallbacks already")
            seen.append(fallback.model)
            yield from self._steps(path, fallback.model, fallback.steps)

    def _steps(self, path: KeyPath, model: str, steps: Sequence[FallbackStep]) -> Iterator[Problem]:
        taken: list[tuple[str | None, str | None]] = [(model, None)]
        for index, step in enumerate(steps):
            here = (*path, "steps", index)
            yield from self._place(here, step, step.answer)
            if step.answer is None and (step.model, step.api) in taken:
                reason = "has been tried by then"
                yield self._twice(here, step.model or str(step.api), reason)
            taken.append((step.model, step.api))
            if step.answer is not None and index < len(steps) - 1:
                yield self.at(
                    (*here, "answer"),
                    given=None,
                    reason="is not the last step, and nothing after it is ever tried",
                    remedy="move it to the end",
                )

    def cycles(self) -> Iterator[Problem]:
        """Two models that stand in for each other: whichever fails takes the other with it."""
        onward = {
            fallback.model: [step.model for step in fallback.steps if step.model]
            for fallback in self.section.fallbacks
        }
        for index, fallback in enumerate(self.section.fallbacks):
            ring = _ring(onward, fallback.model)
            if ring and fallback.model == min(ring):
                yield self.at(
                    ("fallbacks", index),
                    given=" -> ".join((*ring, ring[0])),
                    reason="is a cycle: the load of one that fails would come back to it",
                    remedy="let chains end in a smaller model, a managed API or an answer",
                )

    def canaries(self) -> Iterator[Problem]:
        sums: dict[str, int] = {}
        pairs: list[tuple[str, str]] = []
        for index, one in enumerate(self.section.canaries):
            path: KeyPath = ("canaries", index)
            yield from self._release(path, one.model, one.release, pairs)
            sums[one.model] = sums.get(one.model, 0) + one.percent
            if sums[one.model] > 100 >= sums[one.model] - one.percent:
                yield self.at(
                    (*path, "percent"),
                    given=str(one.percent),
                    reason=f"brings the canaries of {one.model} to {sums[one.model]} %",
                    remedy="let them take 100 % together at most",
                )

    def shadows(self) -> Iterator[Problem]:
        pairs: list[tuple[str, str]] = []
        for index, one in enumerate(self.section.shadows):
            if one.model in [model for model, _ in pairs]:
                yield self._twice(("shadows", index, "model"), one.model, "has a shadow already")
            yield from self._release(("shadows", index), one.model, one.release, pairs)
            if one.percent == 0:
                yield self.at(
                    ("shadows", index, "percent"),
                    given="0",
                    reason="copies nothing",
                    remedy="give a share from 1 to 100, or take the shadow out",
                )

    def _release(
        self, path: KeyPath, model: str, release: str, pairs: list[tuple[str, str]]
    ) -> Iterator[Problem]:
        yield from self._model((*path, "model"), model)
        yield from self._model((*path, "release"), release)
        if release == model:
            yield self._twice((*path, "release"), release, "is the model itself")
        if (model, release) in pairs:
            yield self._twice((*path, "release"), release, f"is there for {model} already")
        pairs.append((model, release))

    def rules(self) -> Iterator[Problem]:
        for index, rule in enumerate(self.section.rules):
            path: KeyPath = ("rules", index)
            yield from self._model((*path, "model"), rule.model)
            yield from self._place((*path, "to"), rule.to, None)
            yield from self._conditions(path, rule)
            yield from self._destination(path, rule)
            covering = next((one for one in self.section.rules[:index] if _covers(one, rule)), None)
            if covering:
                yield self.at(
                    path,
                    given=rule.name,
                    reason=f"never takes a request: {covering.name} before it takes them all",
                    remedy="put the narrower rule first, or set their tenants or tokens apart",
                )

    def _conditions(self, path: KeyPath, rule: Rule) -> Iterator[Problem]:
        known = [tenant.name for tenant in self.section.tenants]
        for index, tenant in enumerate(rule.tenants or ()):
            if tenant not in known:
                yield self._unknown((*path, "tenants", index), tenant, "tenant", known)
        if rule.tenants is None and rule.tokens_from is None and rule.tokens_below is None:
            yield self.at(
                path,
                given=rule.name,
                reason="fits every request of its model",
                remedy="give it tenants, tokens_from or tokens_below",
            )
        if rule.tokens_from and rule.tokens_below and rule.tokens_from >= rule.tokens_below:
            yield self.at(
                (*path, "tokens_below"),
                given=str(rule.tokens_below),
                reason=f"is not above tokens_from ({rule.tokens_from}), so no request fits",
                remedy="give a range of lengths",
            )

    def _destination(self, path: KeyPath, rule: Rule) -> Iterator[Problem]:
        length = self.lengths.get(rule.to.model or "")
        if rule.to.model == rule.model:
            yield self._twice((*path, "to", "model"), rule.model, "is where they go anyway")
        elif length and rule.tokens_from and rule.tokens_from >= length:
            yield self.at(
                (*path, "to", "model"),
                given=rule.to.model,
                reason=f"serves at most {length} tokens, and these requests have "
                f"{rule.tokens_from} or more",
                remedy="send them to a model or API that takes them",
            )
        restricted = {tenant.name for tenant in self.section.tenants if tenant.restricted}
        for index, tenant in enumerate(rule.tenants or ()):
            if rule.to.api and tenant in restricted:
                yield self.at(
                    (*path, "tenants", index),
                    given=repr(tenant),
                    reason=f"is restricted, so its requests never go to {rule.to.api}",
                    remedy="take it out of the rule, or send the rule to a model",
                )

    def _place(self, path: KeyPath, place: Place, answer: str | None) -> Iterator[Problem]:
        """One of a model, an API and, in a chain, an answer."""
        given = [one for one in (place.model, place.api, answer) if one is not None]
        if len(given) != 1:
            choices = "model, api or answer" if isinstance(place, FallbackStep) else "model or api"
            yield self.at(
                path,
                given=f"{len(given)} of {choices}",
                reason="is not one place",
                remedy=f"give one of {choices}",
            )
        if place.model is not None:
            yield from self._model((*path, "model"), place.model)
        apis = [api.name for api in self.section.apis]
        if place.api is not None and place.api not in apis:
            yield self._unknown((*path, "api"), place.api, "API of gateway.apis", apis)

    def _model(self, path: KeyPath, model: str) -> Iterator[Problem]:
        if model not in self.lengths:
            yield self._unknown(path, model, "model of this environment", list(self.lengths))

    def _unknown(self, path: KeyPath, given: str, kind: str, known: Sequence[str]) -> Problem:
        near = difflib.get_close_matches(given, known, n=1)
        remedy = f"did you mean {near[0]}" if near else f"use one of: {', '.join(known) or 'none'}"
        return self.at(path, given=repr(given), reason=f"is no {kind}", remedy=remedy)

    def _twice(self, path: KeyPath, given: str, reason: str) -> Problem:
        return self.at(path, given=repr(given), reason=reason, remedy="take it out")


def _ring(onward: dict[str, list[str]], start: str) -> tuple[str, ...]:
    """The models of a cycle of two or more through ``start``, or nothing."""
    trails: list[tuple[str, ...]] = [(start,)]
    while trails:
        trail = trails.pop(0)
        for model in onward.get(trail[-1], ()):
            if model == start and len(trail) > 1:
                return trail
            if model not in trail:
                trails.append((*trail, model))
    return ()


def _covers(earlier: Rule, later: Rule) -> bool:
    """Whether every request that the later rule fits is taken by the earlier one."""
    if earlier.model != later.model:
        return False
    tenants = earlier.tenants is None or (
        later.tenants is not None and set(later.tenants) <= set(earlier.tenants)
    )
    low, high = _range(earlier)
    return tenants and low <= _range(later)[0] and _range(later)[1] <= high


def _range(rule: Rule) -> tuple[int, int]:
    return rule.tokens_from or 0, rule.tokens_below or ANY_SIZE
