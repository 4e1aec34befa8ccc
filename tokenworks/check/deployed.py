"""What Pulumi's state and a cluster hold, as resources.

Programs and manifests say what was asked for. The state says what providers made of it, and the
cluster what controllers and people did since: an internal load balancer that somebody turned
public is found there alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from policy.resources import Resource
from policy.rule import Finding
from tokenworks.check.places import Places
from tokenworks.check.sources import Reading
from tokenworks.naming import ENVIRONMENT_LABEL

# What anybody may reach is judged wherever it lies, also outside the namespaces of ours.
_NETWORK_KINDS: Final = frozenset(
    {
        "GRPCRoute",
        "Gateway",
        "HTTPRoute",
        "Ingress",
        "ReferenceGrant",
        "Service",
        "TCPRoute",
        "TLSRoute",
        "UDPRoute",
        "VirtualService",
    }
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def state_resources(
    deployment: Mapping[str, Any], origin: str, places: Places
) -> Iterator[Resource]:
    """Yield the resources of a stack's state, in the shape of ``pulumi stack export``.

    Outputs are judged, since they are what the provider last saw; inputs where there are none.
    """
    for one in deployment.get("resources") or ():
        urn, type_ = one["urn"], one["type"]
        raw = one.get("outputs") or one.get("inputs") or {}
        properties = _written(raw) if type_.startswith("kubernetes:") else raw
        resource = Resource.of(
            type_,
            urn.rpartition("::")[2],
            properties,
            urn=urn,
            origin=origin,
            parent=one.get("parent") or "",
        )
        line = places.line_of(resource.name, resource.properties, resource.parent)
        known_as = {one.get("id"), raw.get("arn")}
        names = frozenset(name for name in known_as if isinstance(name, str) and name)
        yield replace(resource, line=line, known_as=names)


def cluster_resources(
    found: Iterable[Mapping[str, Any]], environment: str, origin: str, places: Places
) -> tuple[list[Resource], list[Finding]]:
    """Return the objects of a cluster that concern an environment, and what is no object.

    These are objects in its namespaces, those with its label, and everywhere the kinds by which
    something can be reached.
    """
    objects = [_written(one) for one in found]
    namespaces = {_metadata(one).get("name") for one in objects if _is_namespace(one, environment)}
    reading = Reading()
    reading.add_objects((one for one in objects if _concerns(one, environment, namespaces)), origin)
    placed = [
        replace(one, line=places.line_of(one.name.rpartition("/")[2], one.properties))
        for one in reading.resources
    ]
    return placed, reading.findings


def _is_namespace(one: Mapping[str, Any], environment: str) -> bool:
    return one.get("kind") == "Namespace" and _label(one) == environment


def _concerns(one: Mapping[str, Any], environment: str, namespaces: set[Any]) -> bool:
    metadata = _metadata(one)
    ours = metadata.get("namespace") in namespaces or _label(one) == environment
    return ours or one.get("kind") in _NETWORK_KINDS


def _label(one: Mapping[str, Any]) -> Any:
    return (_metadata(one).get("labels") or {}).get(ENVIRONMENT_LABEL)


def _metadata(one: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = one.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _written(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what the server notes about it, and without copies of itself."""
    kept = {k: v for k, v in one.items() if k != "status" and not k.startswith("__")}
    if isinstance(kept.get("metadata"), Mapping):
        metadata = {k: v for k, v in kept["metadata"].items() if k != "managedFields"}
        annotations = metadata.get("annotations")
        if isinstance(annotations, Mapping):
            metadata["annotations"] = {k: v for k, v in annotations.items() if k != _LAST_APPLIED}
        kept["metadata"] = metadata
    return kept
