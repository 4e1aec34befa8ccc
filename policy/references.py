"""Whether a reference into another namespace has been granted there."""

from __future__ import annotations

from policy.estate import Estate, namespace_of
from policy.objects import KubernetesObject
from policy.resources import Value, elements, peek


def is_granted(
    route: KubernetesObject, own: Value, kind: Value, name: Value, other: Value, estate: Estate
) -> bool:
    """Return whether a ReferenceGrant in namespace ``other`` lets a route refer to what it names.

    gateway-api.sigs.k8s.io/api-types/referencegrant: an absent name grants every name.
    """
    return any(
        namespace_of(grant) == other
        and _names(peek(grant.body, "spec", "from"), route.group, route.kind, "namespace", own)
        and _names(peek(grant.body, "spec", "to"), "", kind, "name", name)
        for grant in estate.of_kind("ReferenceGrant")
    )


def _names(listed: Value, group: str, kind: Value, key: str, wanted: Value) -> bool:
    for _, one in elements(listed):
        same_kind = (peek(one, "group") or "") == group and peek(one, "kind") == kind
        given = peek(one, key)
        if same_kind and isinstance(wanted, str) and (given == wanted or _any(key, given)):
            return True
    return False


def _any(key: str, given: Value) -> bool:
    return key == "name" and given is None
