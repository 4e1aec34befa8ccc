"""Other names for an engine: by DNS, by hand-written endpoints, in a mesh or another cluster.

Whatever guards a Service guards none of its aliases. So an engine has no other name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate, name_of, namespace_of
from policy.labels import GATEWAY
from policy.objects import KubernetesObject
from policy.reach import is_gateway, reach_of
from policy.resources import UNKNOWN, Value, elements, peek
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

# kubernetes.io/docs/concepts/services-networking/dns-pod-service: name.namespace.svc[.domain];
# pods have names below a headless Service.
_IN_CLUSTER: Final = re.compile(r"(?:[\w-]+\.)*?([\w-]+)\.([\w-]+)\.(?:svc|pod)(?:\.[\w.-]+)?\.?")
_OWNER: Final = "kubernetes.io/service-name"
_REMEDY: Final = "remove it, and let callers use the gateway's name"
_EXPORTS: Final = frozenset({"multicluster.x-k8s.io", "net.gke.io"})


def alias_faults(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each other name that an object gives to an engine."""
    if thing.kind == "Service" and not thing.group:
        yield from _external_name(thing, estate)
    elif thing.kind == "Endpoints" and not thing.group:
        yield from _endpoints(thing, estate)
    elif thing.kind == "EndpointSlice" and thing.group == "discovery.k8s.io":
        yield from _endpoint_slice(thing, estate)
    elif thing.kind in ("ServiceExport", "ServiceImport") and thing.group in _EXPORTS:
        yield from _other_clusters(thing, estate)
    elif thing.kind == "ServiceEntry" and thing.group == "networking.istio.io":
        yield from _service_entry(thing, estate)


def _external_name(service: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    keys: Keys = ("spec", "externalName")
    name = peek(service.body, *keys)
    is_alias = str(peek(service.body, "spec", "type")).lower() == "externalname"
    if is_alias or name is not None:
        yield from _host_fault(service, keys, name, estate)


def _host_fault(
    thing: KubernetesObject, keys: Keys, host: Value, estate: Estate
) -> Iterator[Fault]:
    """Judge a name: one inside the cluster is good only if it is known to be no engine's."""
    if not isinstance(host, str):
        yield _unclear(thing, keys, None, "is not known")
        return
    inside = _IN_CLUSTER.fullmatch(host.lower())
    if engines.names_an_engine(host):
        yield _alias(thing, keys, host, "it is an engine's name")
    elif inside is not None:
        yield from _service_fault(thing, keys, host, (inside[1], inside[2]), estate)


def _service_fault(
    thing: KubernetesObject, keys: Keys, given: str, named: tuple[str, Value], estate: Estate
) -> Iterator[Fault]:
    """Judge a name of a Service by the Service, if it is seen."""
    name, namespace = named
    services = [one for one in estate.named("Service", name, namespace) if not one.group]
    reaches = [reach_of(service, estate) for service in services]
    why = next((reach.why for reach in reaches if reach.why is not None), None)
    if why is not None:
        yield _alias(thing, keys, given, f"of the Service of that name it is known that {why}")
    elif not services and GATEWAY not in name:
        yield _unclear(thing, keys, given, "is a Service that is not seen here")
    elif not all(r.harmless or is_gateway(s) for r, s in zip(reaches, services, strict=True)):
        yield _unclear(thing, keys, given, "is a Service whose pods are not all known")


def _endpoints(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    if _is_the_services_own(thing, name_of(thing), estate):
        return
    yield from _carries_an_engines_name(thing, name_of(thing))
    yield from _unknown(thing, ("subsets",))
    for index, subset in elements(peek(thing.body, "subsets")):
        keys: Keys = ("subsets", index)
        yield from _port_faults(thing, (*keys, "ports"), peek(subset, "ports"))
        for name in ("addresses", "notReadyAddresses"):
            for number, address in elements(peek(subset, name)):
                yield from _target_fault(thing, (*keys, name, number), address, estate)


def _endpoint_slice(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    owner = thing.label(_OWNER)
    if _is_the_services_own(thing, owner, estate):
        return
    yield from _carries_an_engines_name(thing, owner)
    yield from _port_faults(thing, ("ports",), peek(thing.body, "ports"))
    yield from _unknown(thing, ("endpoints",))
    by_name = peek(thing.body, "addressType") == "FQDN"
    for index, endpoint in elements(peek(thing.body, "endpoints")):
        keys: Keys = ("endpoints", index)
        yield from _target_fault(thing, keys, endpoint, estate)
        for number, address in elements(peek(endpoint, "addresses")) if by_name else ():
            yield from _host_fault(thing, (*keys, "addresses", number), address, estate)


def _is_the_services_own(thing: KubernetesObject, owner: Value, estate: Estate) -> bool:
    """Return whether endpoints are those that a controller keeps for a Service with a selector.

    Such are in a live cluster; the controller undoes what anybody else writes there, and the
    Service is judged itself.
    """
    services = estate.named("Service", owner, namespace_of(thing))
    return any(not one.group and peek(one.body, "spec", "selector") for one in services)


def _carries_an_engines_name(thing: KubernetesObject, owner: Value) -> Iterator[Fault]:
    why = engines.in_labels(peek(thing.body, "metadata", "labels"))
    if isinstance(why, str):
        yield _alias(thing, ("metadata", "labels"), None, f"its label {why}")
    elif isinstance(owner, str) and engines.names_an_engine(owner):
        yield _alias(thing, ("metadata",), None, "it is called an engine")


def _port_faults(thing: KubernetesObject, keys: Keys, ports: Value) -> Iterator[Fault]:
    yield from _unknown(thing, keys)
    for index, port in elements(ports):
        given = peek(port, "port")
        given = peek(port, "number") if given is None else given  # a ServiceEntry's word
        why = engines.on_port(given)
        if why is UNKNOWN:
            yield _unclear(thing, (*keys, index), None, "is not known")
        elif why is not None:
            yield _alias(thing, (*keys, index), given, why)


def _target_fault(
    thing: KubernetesObject, keys: Keys, endpoint: Value, estate: Estate
) -> Iterator[Fault]:
    target = peek(endpoint, "targetRef")
    name = peek(target, "name")
    if not isinstance(name, str):
        return
    owners = [
        pod for pod in estate.pods if isinstance(pod.evidence, str) and _is_of(name, pod.thing)
    ]
    if engines.names_an_engine(name) or owners:
        yield _alias(thing, (*keys, "targetRef", "name"), name, "the pod is an engine")


def _is_of(pod: str, workload: KubernetesObject) -> bool:
    """Return whether a pod's name is one that a workload gives: its own, or with a suffix."""
    name = name_of(workload)
    return isinstance(name, str) and (pod == name or pod.startswith(f"{name}-"))


def _other_clusters(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    """Judge what is published to, or known from, other clusters under its Service's name."""
    name, keys = name_of(thing), ("metadata", "name")
    why = engines.in_labels(peek(thing.body, "metadata", "labels"))
    if isinstance(why, str):
        yield _alias(thing, keys, name, f"its label {why}")
    elif isinstance(name, str) and engines.names_an_engine(name):
        yield _alias(thing, keys, name, "it is an engine's name")
    elif thing.kind == "ServiceImport":
        yield from _port_faults(thing, ("spec", "ports"), peek(thing.body, "spec", "ports"))
    elif isinstance(name, str):
        yield from _service_fault(thing, keys, name, (name, namespace_of(thing)), estate)
    else:
        yield _unclear(thing, keys, None, "is not known")


def _service_entry(thing: KubernetesObject, estate: Estate) -> Iterator[Fault]:
    spec = peek(thing.body, "spec")
    keys: Keys = ("spec", "workloadSelector", "labels")
    why = engines.in_labels(peek(spec, "workloadSelector", "labels"))
    if isinstance(why, str):
        yield _alias(thing, keys, None, f"its selector's {why}")
    yield from _unknown(thing, ("spec", "hosts"))
    for index, host in elements(peek(spec, "hosts")):
        yield from _host_fault(thing, ("spec", "hosts", index), host, estate)
    for index, endpoint in elements(peek(spec, "endpoints")):
        address = peek(endpoint, "address")
        if address is not None:
            yield from _host_fault(thing, ("spec", "endpoints", index, "address"), address, estate)
    yield from _port_faults(thing, ("spec", "ports"), peek(spec, "ports"))


def _unknown(thing: KubernetesObject, keys: Keys) -> Iterator[Fault]:
    if peek(thing.body, *keys) is UNKNOWN:
        yield _unclear(thing, keys, None, "is not known")


def _alias(thing: KubernetesObject, keys: Keys, given: Value, why: str) -> Fault:
    return Fault(
        key=thing.path(*keys),
        given=given,
        reason=f"is another name for an engine, since {why}",
        remedy=_REMEDY,
    )


def _unclear(thing: KubernetesObject, keys: Keys, given: Value, what: str) -> Fault:
    return Fault(
        key=thing.path(*keys),
        given=given,
        reason=f"{what}, so that it may be another name for an engine",
        remedy=_REMEDY,
        verdict=Verdict.UNDETERMINABLE,
    )
