"""Network policies of other makers: Cilium, Calico, and those that go before all others.

They are understood as far as their plainest words go. What is left over counts as not known,
never as absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate
from policy.networks import is_private
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, peek
from policy.rule import Fault, Verdict
from policy.selectors import of_selector

Keys = tuple[str | int, ...]

_KINDS: Final = (
    "NetworkPolicy",
    "GlobalNetworkPolicy",
    "CiliumNetworkPolicy",
    "CiliumClusterwideNetworkPolicy",
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "ClusterNetworkPolicy",
)
_GROUPS: Final = (
    "cilium.io",
    "crd.projectcalico.org",
    "projectcalico.org",
    "policy.networking.k8s.io",
)
# docs.cilium.io/en/stable/security/policy/language/#entities-based
_WIDE_ENTITIES: Final = frozenset({"all", "world", "world-ipv4", "world-ipv6", "cluster"})
_REMEDY: Final = "admit the gateway's pods by their labels, and nothing else"


def is_other_policy(thing: KubernetesObject) -> bool:
    """Return whether an object is a network policy of another maker than Kubernetes."""
    return thing.group in _GROUPS and thing.kind in _KINDS


def other_policies(estate: Estate) -> bool:
    """Return whether an estate has any network policy of another maker."""
    return any(thing.group in _GROUPS for kind in _KINDS for thing in estate.of_kind(kind))


def other_opening_faults(policy: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for what such a policy admits to engines, as far as it is understood."""
    concern = _concern(policy, estate)
    if concern is None:
        return
    if policy.group == "cilium.io":
        yield from _cilium_faults(policy, concern)
    else:
        yield from _allowing_faults(policy)


def _concern(policy: KubernetesObject, estate: Estate) -> str | None:
    """Return why a policy is about engines: it says so, or it may be, and there are some."""
    spec = peek(policy.body, "spec")
    for keys in (("endpointSelector",), ("subject", "pods", "podSelector")):
        why = engines.in_labels(peek(spec, *keys, "matchLabels"))
        if isinstance(why, str):
            return f"its selector's {why}"
    text = peek(spec, "selector")
    if isinstance(text, str) and (engines.names_an_engine(text) or "'engine'" in text):
        return "its selector names an engine"
    wanted = of_selector(peek(spec, "endpointSelector"))
    selected = (pod.evidence for pod in estate.selected(wanted, None))
    return next((why for why in selected if isinstance(why, str)), None)


def _cilium_faults(policy: KubernetesObject, concern: str) -> Iterator[Fault]:
    for index, rule in elements(peek(policy.body, "spec", "ingress")):
        keys: Keys = ("spec", "ingress", index)
        for place, given in _wide_sources(rule, keys):
            yield Fault(
                key=policy.path(*place),
                given=given,
                reason=f"admits more than the gateway to an engine, since {concern}",
                remedy=_REMEDY,
                verdict=Verdict.UNDETERMINABLE if given is UNKNOWN else Verdict.FAIL,
            )


def _wide_sources(rule: Value, keys: Keys) -> Iterator[tuple[Keys, Value]]:
    for index, entity in elements(peek(rule, "fromEntities")):
        if entity is UNKNOWN or entity in _WIDE_ENTITIES:
            yield (*keys, "fromEntities", index), entity
    for place, cidr in _ranges(rule, keys):
        if not (isinstance(cidr, str) and is_private(cidr)):
            yield place, cidr
    for index, endpoint in elements(peek(rule, "fromEndpoints")):
        if endpoint is UNKNOWN or not of_selector(endpoint):
            yield (*keys, "fromEndpoints", index), endpoint if endpoint is UNKNOWN else None


def _ranges(rule: Value, keys: Keys) -> Iterator[tuple[Keys, Value]]:
    for index, cidr in elements(peek(rule, "fromCIDR")):
        yield (*keys, "fromCIDR", index), cidr
    for index, block in elements(peek(rule, "fromCIDRSet")):
        yield (*keys, "fromCIDRSet", index, "cidr"), peek(block, "cidr")


def _allowing_faults(policy: KubernetesObject) -> Iterator[Fault]:
    """Say of a rule that allows that nobody here can tell whom; it may go before every other."""
    for index, rule in elements(peek(policy.body, "spec", "ingress")):
        action = peek(rule, "action")
        if action is UNKNOWN or str(action).lower() in ("allow", "accept", "pass"):
            yield Fault(
                key=policy.path("spec", "ingress", index, "action"),
                given=action,
                reason="may admit more than the gateway to engines, past their NetworkPolicies",
                remedy="write it as a NetworkPolicy of Kubernetes, which is understood here",
                verdict=Verdict.UNDETERMINABLE,
            )
