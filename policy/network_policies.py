"""Who may talk to engines: the gateway, by a NetworkPolicy that refuses everybody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate, PlacedPod, name_of, namespace_of
from policy.labels import ENGINE, GATEWAY, ROLE
from policy.networks import is_private
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, is_body, peek
from policy.rule import Fault, Verdict
from policy.selectors import (
    Requirements,
    may_match,
    must_match,
    named_values,
    of_selector,
)

Keys = tuple[str | int, ...]

GROUPS: Final = frozenset({"networking.k8s.io", "extensions"})
# Words in names of what may talk to engines beside the gateway: what measures them.
_CALLER_WORDS: Final = (GATEWAY, "envoy", "prometheus", "monitoring", "observability")
# Roles that may: engines of one model talk to each other.
_CALLER_ROLES: Final = frozenset({GATEWAY, ENGINE, "observability"})
_NARROW: Final = f"admit pods labelled {ROLE}: {GATEWAY} in the gateway's namespace, and no others"


def opening_faults(policy: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each source, other than the gateway, that a policy admits to engines."""
    concern = _concern(policy, estate)
    if concern is None or not _is_for_ingress(policy):
        return
    rules = peek(policy.body, "spec", "ingress")
    if rules is UNKNOWN:
        yield _fault(policy, ("spec", "ingress"), None, "is not known", Verdict.UNDETERMINABLE)
    for index, rule in elements(rules):
        keys: Keys = ("spec", "ingress", index)
        for place, given, why, verdict in _too_wide(rule, keys, policy, estate):
            if concern is UNKNOWN and verdict is not Verdict.FAIL:
                continue  # whether it concerns an engine at all is not known, nor that it is wide
            softened = Verdict.UNDETERMINABLE if concern is UNKNOWN else verdict
            yield _fault(policy, place, given, why, softened)


def isolation(pod: PlacedPod, estate: Estate) -> Verdict | None:
    """Return None if a NetworkPolicy refuses by default what enters a pod; FAIL if none does."""
    selectors = [_selector(one) for one in _policies(pod.namespace, estate)]
    if any(one is not None and must_match(one, pod.spec.labels) for one in selectors):
        return None
    maybe = any(one is None or may_match(one, pod.spec.labels) for one in selectors)
    return Verdict.UNDETERMINABLE if maybe else Verdict.FAIL


def has_default_deny(namespace: Value, estate: Estate) -> bool:
    """Return whether a policy of a namespace selects every pod and admits nobody."""
    return any(
        _selector(one) == () and not peek(one.body, "spec", "ingress")
        for one in _policies(namespace, estate)
    )


def holds_engines(namespace: KubernetesObject, estate: Estate) -> bool:
    """Return whether a Namespace says that it is for engines, or has any."""
    return namespace.label(ROLE) == ENGINE or name_of(namespace) in estate.engine_namespaces


def _policies(namespace: Value, estate: Estate) -> Iterator[KubernetesObject]:
    """Yield the policies for what enters pods of a namespace.

    One that says no namespace counts as well: both may be left to whoever deploys them.
    """
    for place in {namespace, None}:
        for policy in estate.placed("NetworkPolicy", place):
            if policy.group in GROUPS and _is_for_ingress(policy):
                yield policy


def _is_for_ingress(policy: KubernetesObject) -> bool:
    types = peek(policy.body, "spec", "policyTypes")
    return not types or types is UNKNOWN or "Ingress" in [type_ for _, type_ in elements(types)]


def _selector(policy: KubernetesObject) -> Requirements | None:
    """Return the conditions that a policy selects pods by, or None where they are not known."""
    selector = peek(policy.body, "spec", "podSelector")
    return None if selector is UNKNOWN else of_selector(selector)


def _concern(policy: KubernetesObject, estate: Estate) -> engines.Evidence:
    """Return why a policy is about engines; UNKNOWN if it may be; None if it is not."""
    selector = peek(policy.body, "spec", "podSelector")
    labels = peek(selector, "matchLabels")
    why = engines.in_labels(labels)
    if isinstance(why, str):
        return f"its selector's {why}"
    if isinstance(peek(labels, ROLE), str):
        return None
    pods = tuple(estate.selected(of_selector(selector), namespace_of(policy)))
    why = next((pod.evidence for pod in pods if isinstance(pod.evidence, str)), None)
    if why is not None:
        return f"it selects an engine, since {why}"
    known = estate.complete and all(pod.evidence is None for pod in pods)
    return None if known and not _is_for_an_engines_namespace(policy, estate) else UNKNOWN


def _is_for_an_engines_namespace(policy: KubernetesObject, estate: Estate) -> bool:
    namespaces = estate.named("Namespace", namespace_of(policy), None)
    return any(holds_engines(namespace, estate) for namespace in namespaces)


_Wide = tuple[Keys, Value, str, Verdict]


def _too_wide(rule: Value, keys: Keys, policy: KubernetesObject, estate: Estate) -> Iterator[_Wide]:
    sources = peek(rule, "from")
    if rule is UNKNOWN or sources is UNKNOWN:
        place = keys if rule is UNKNOWN else (*keys, "from")
        yield place, None, "is not known", Verdict.UNDETERMINABLE
    elif not sources:
        yield (*keys, "from"), None, "names no source, which admits all of them", Verdict.FAIL
    for index, source in elements(sources):
        place = (*keys, "from", index)
        if source is UNKNOWN:
            yield place, None, "is not known", Verdict.UNDETERMINABLE
        elif peek(source, "ipBlock") is not None:
            yield from _block(peek(source, "ipBlock"), (*place, "ipBlock"))
        else:
            yield from _peer(source, place, policy, estate)


def _block(block: Value, keys: Keys) -> Iterator[_Wide]:
    cidr, place = peek(block, "cidr"), (*keys, "cidr")
    if cidr is UNKNOWN:
        yield place, None, "is not known, and may be public", Verdict.UNDETERMINABLE
    elif not (isinstance(cidr, str) and is_private(cidr)):
        yield place, cidr, "is public", Verdict.FAIL
    else:
        why = "admits whoever has such an address, the gateway or not"
        yield place, cidr, why, Verdict.UNDETERMINABLE


def _peer(source: Value, keys: Keys, policy: KubernetesObject, estate: Estate) -> Iterator[_Wide]:
    pods, spaces = peek(source, "podSelector"), peek(source, "namespaceSelector")
    if UNKNOWN in (pods, spaces):
        yield keys, None, "is not known", Verdict.UNDETERMINABLE
        return
    of_pods, of_spaces = of_selector(pods), of_selector(spaces)
    anywhere = is_body(spaces) and not any(one.is_narrow for one in of_spaces)
    if anywhere:
        why = "admits pods of every namespace, where anybody may label one so"
        yield (*keys, "namespaceSelector"), None, why, Verdict.FAIL
    elif any(one.is_narrow for one in of_pods):
        yield from _named_pods(of_pods, (*keys, "podSelector"), policy, estate, spaces)
    elif not _names_a_caller(of_spaces):
        named = is_body(spaces)
        why = "admits every pod of a namespace, the gateway or not"
        yield keys, None, why, Verdict.UNDETERMINABLE if named else Verdict.FAIL


def _named_pods(
    wanted: Requirements, keys: Keys, policy: KubernetesObject, estate: Estate, spaces: Value
) -> Iterator[_Wide]:
    roles = {value for key, value in named_values(wanted) if key == ROLE}
    if roles and roles <= _CALLER_ROLES:
        return
    if roles:
        why = f"admits pods of another role than {GATEWAY}"
        yield keys, ", ".join(sorted(roles)), why, Verdict.FAIL
    elif not (_names_a_caller(wanted) or _select_gateways(wanted, policy, estate, spaces)):
        yield keys, None, "admits pods that are not called a gateway", Verdict.UNDETERMINABLE


def _select_gateways(
    wanted: Requirements, policy: KubernetesObject, estate: Estate, spaces: Value
) -> bool:
    """Return whether all that is selected, in an estate that is known, wears the gateway's role."""
    where = namespace_of(policy) if spaces is None else UNKNOWN
    roles = [peek(pod.spec.labels, ROLE) for pod in estate.selected(wanted, where)]
    return estate.complete and bool(roles) and all(role == GATEWAY for role in roles)


def _names_a_caller(wanted: Requirements) -> bool:
    return any(word in value for _, value in named_values(wanted) for word in _CALLER_WORDS)


def _fault(policy: KubernetesObject, keys: Keys, given: Value, why: str, verdict: Verdict) -> Fault:
    return Fault(
        key=policy.path(*keys),
        given=given,
        reason=f"{why}, and the policy is, or may be, about engines",
        remedy=_NARROW,
        verdict=verdict,
    )
