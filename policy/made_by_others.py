"""Services and routes that charts and operators make from what a program tells them.

A Release's manifests are rendered by the provider and shown to nobody (pulumi-kubernetes#3054),
and an operator makes Services that are in no program. What remains to be judged is what they are
told: the values of a chart, the specification of a custom resource.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeGuard

from policy import engines
from policy.estate import ALONE
from policy.internal_services import internal_verdict
from policy.objects import KubernetesObject
from policy.pods import PATTERN_DOMAINS, is_of, pod_specs
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

_CHART: Final = re.compile(r"kubernetes:helm\.sh/v[0-9]\w*:(?:Release|Chart)")
# API groups whose objects are judged as what they are (kubernetes.io/docs/reference).
_BUILT_IN: Final = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})
_BUILT_IN_DOMAIN: Final = re.compile(r"(?!.*x-k8s\.io$)(?:[a-z]+\.)?(?:[a-z]+\.)?k8s\.io")
_OUTSIDE: Final = frozenset({"loadbalancer", "nodeport"})
_IN_TEXT: Final = re.compile(r"(?i)\w*type[\"']?\s*[:=]\s*[\"']?(?:LoadBalancer|NodePort)\b")
_SERVICE_TYPE: Final = re.compile(r"(?i).*service.*type")
# Charts whose Service is a load balancer unless the values say otherwise (their values.yaml).
_EXPOSING_CHARTS: Final = re.compile(
    r"ambassador|apisix|contour|emissary-ingress|envoy|gateway|gateway-helm|gloo|haproxy-ingress"
    r"|higress|ingress|ingress-nginx|istio-ingress|istio-ingressgateway|kong|kubernetes-ingress"
    r"|nginx-gateway-fabric|nginx-ingress|nginx-ingress-controller|skipper|traefik|voyager"
)
_ENABLES: Final = re.compile(r"(?i)(?:\w*ingress|\w*route|routes|gateway|virtualservice)")
_DEEPEST: Final = 40  # deeper than any chart nests

_INLINE: Final = "give the values inline, where they are seen"
_INSIDE: Final = "make it ClusterIP, and let the gateway serve it"
_NO_ROUTE: Final = "turn it off, and let the gateway serve the engine"


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What a chart or an operator is told, where that stands, and why it is about an engine."""

    who: str
    body: Value
    keys: Keys
    why: str | None


def is_chart(type_token: str) -> bool:
    """Return whether a type token is of a Helm chart or release."""
    return _CHART.fullmatch(type_token) is not None


def chart_service_faults(chart: Resource) -> Iterator[Fault]:
    """Yield a fault for each Service outside the cluster that a chart is told to make."""
    told = _of_chart(chart)
    yield from _unseen_values(chart.properties)
    yield from _service_faults(told, key_path)
    if _exposes_by_default(chart.properties) and not _says_inside(told.body):
        yield Fault(
            key="values",
            reason="do not say that the chart's Service, a load balancer by default, is internal",
            remedy="set the type of its Service to ClusterIP",
            verdict=Verdict.UNDETERMINABLE,
        )


def chart_route_faults(chart: Resource) -> Iterator[Fault]:
    """Yield a fault for each Ingress or route that a chart is told to make."""
    yield from _route_faults(_of_chart(chart), key_path)


def custom_service_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each Service outside the cluster that an operator is told to make."""
    if _is_custom(thing):
        yield from _service_faults(_of_custom(thing), thing.path)


def custom_route_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Yield a fault for each route that an operator is told to make for an engine."""
    if _is_custom(thing):
        told = _of_custom(thing)
        if told.why is not None:
            yield from _route_faults(told, thing.path)


def _service_faults(told: _Told, path: Callable[..., str]) -> Iterator[Fault]:
    for keys, holder, given in _outside(told.body, told.keys, _DEEPEST):
        unknown = given is UNKNOWN
        if told.why is None and _is_internal(given, holder):
            continue
        about = f"an engine, since {told.why}" if told.why else "what is not seen here"
        fails = told.why is not None and not unknown
        yield Fault(
            key=path(*keys),
            given=None if isinstance(given, str) and "\n" in given else given,
            reason=f"{'may tell' if unknown else 'tells'} {told.who} to publish {about}",
            remedy=_INSIDE,
            verdict=Verdict.FAIL if fails else Verdict.UNDETERMINABLE,
        )


def _route_faults(told: _Told, path: Callable[..., str]) -> Iterator[Fault]:
    for keys, given in _enabled(told.body, told.keys, _DEEPEST):
        about = f"an engine, since {told.why}" if told.why else "what is not seen here"
        fails = told.why is not None and given is not UNKNOWN
        yield Fault(
            key=path(*keys),
            given=given,
            reason=f"tells {told.who} to make a route to {about}",
            remedy=_NO_ROUTE,
            verdict=Verdict.FAIL if fails else Verdict.UNDETERMINABLE,
        )


def _of_chart(chart: Resource) -> _Told:
    values = chart.properties.get("values")
    names = [chart.properties.get(key) for key in ("chart", "path", "name", "releaseName")]
    named = any(isinstance(name, str) and engines.names_an_engine(name) for name in names)
    why = "the chart is called one" if named else _named_in(values)
    return _Told(who="a chart", body=values, keys=("values",), why=why)


def _of_custom(thing: KubernetesObject) -> _Told:
    why: str | None = None
    if is_of(thing.group, ("ray.io",)):
        why = "whoever reaches a Ray head runs code on the cluster"
    for evidence in (engines.in_pod(pod) for pod in pod_specs(thing)):
        why = evidence if isinstance(evidence, str) else why
    why = why or _named_in(peek(thing.body, "spec"))
    return _Told(who="an operator", body=peek(thing.body, "spec"), keys=("spec",), why=why)


def _named_in(values: Value) -> str | None:
    """Return why values speak of an engine: by an image, a name or a command."""
    texts = (value for _, _, value in _entries(values, (), _DEEPEST))
    short = (text for text in texts if isinstance(text, str) and len(text) < 300)
    return "its values name one" if any(map(engines.names_an_engine, short)) else None


def _unseen_values(chart: Body) -> Iterator[Fault]:
    files = chart.get("valueYamlFiles")
    for name, unseen in (
        ("valueYamlFiles", bool(files)),
        ("values", chart.get("values") is UNKNOWN),
    ):
        if unseen:
            yield Fault(
                key=name,
                reason="are not seen here, and may tell the chart to publish an engine",
                remedy=_INLINE,
                verdict=Verdict.UNDETERMINABLE,
            )


def _exposes_by_default(chart: Body) -> bool:
    names = (chart.get("chart"), chart.get("path"))
    last = (name.partition("@")[0].rstrip("/").rpartition("/")[2] for name in names if _is(name))
    return any(_EXPOSING_CHARTS.fullmatch(name.partition(":")[0]) for name in last)


def _is(value: Value) -> TypeGuard[str]:
    return isinstance(value, str)


def _says_inside(values: Value) -> bool:
    """Return whether values say of a Service that it is internal, or that there is none."""
    return any(
        (_is_service_type(keys) and str(value).lower() == "clusterip")
        or (keys[-2:-1] == ("service",) and keys[-1] in ("enabled", "create") and value is False)
        for keys, _, value in _entries(values, (), _DEEPEST)
    )


def _is_internal(given: Value, service: Body) -> bool:
    """Return whether a load balancer is told, beside its type, to be internal."""
    if str(given).lower() != "loadbalancer":
        return False
    body: Body = {"metadata": {"annotations": service.get("annotations")}, "spec": service}
    thing = KubernetesObject(kind="Service", group="", body=body)
    return internal_verdict(thing, ALONE) is None


def _outside(body: Value, keys: Keys, deepest: int) -> Iterator[tuple[Keys, Body, Value]]:
    for place, holder, value in _entries(body, keys, deepest):
        key = str(place[-1]).lower()
        if key.endswith("type"):
            known = isinstance(value, str) and value.lower() in _OUTSIDE
            if known or (value is UNKNOWN and _is_service_type(place)):
                yield place, holder, value
        elif key == "externalips" and value not in (None, ()):
            yield place, holder, value
        elif key == "value" and str(value).lower() in _OUTSIDE:
            if _SERVICE_TYPE.fullmatch(str(holder.get("name"))):  # {name: service.type, value: …}
                yield place, holder, value
        elif isinstance(value, str) and _IN_TEXT.search(value) is not None:
            yield place, holder, value


def _is_service_type(keys: Keys) -> bool:
    last, before = str(keys[-1]).lower(), [str(key).lower() for key in keys[-3:-1]]
    named = last.endswith("type") and any("service" in key for key in before)
    return named or last.endswith("servicetype")


def _enabled(body: Value, keys: Keys, deepest: int) -> Iterator[tuple[Keys, Value]]:
    for place, _, value in _entries(body, keys, deepest):
        key, before = str(place[-1]).lower(), str(place[-2]) if len(place) > 1 else ""
        on = value in (True, "true") or value is UNKNOWN
        if on and (key == "enableingress" or (key == "enabled" and _ENABLES.fullmatch(before))):
            yield place, value


def _entries(value: Value, keys: Keys, deepest: int) -> Iterator[tuple[Keys, Body, Value]]:
    """Yield keys, holder and value of every entry of every body within a value."""
    if not deepest:
        return
    for index, element in elements(value):
        yield from _entries(element, (*keys, index), deepest - 1)
    if is_body(value):
        for key, child in value.items():
            yield (*keys, key), value, child
            yield from _entries(child, (*keys, key), deepest - 1)


def _is_custom(thing: KubernetesObject) -> bool:
    built_in = thing.group in _BUILT_IN or _BUILT_IN_DOMAIN.fullmatch(thing.group) is not None
    return not built_in and not is_of(thing.group, (*PATTERN_DOMAINS, "helm.sh"))
