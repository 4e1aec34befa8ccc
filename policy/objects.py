"""Kubernetes objects inside resources, known by what they mean and not by how they are spelled.

``kubernetes:core/v1:Service``, ``ServicePatch``, an item of a ``ServiceList`` or ``List`` and a
plain manifest with ``kind: Service`` are all one Service, whatever version their API has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, once, peek

_DEEPEST_LIST: Final = 5


@dataclass(frozen=True, kw_only=True)
class KubernetesObject:
    """One object: kind and API group (core is ``""``), its body, and where the body is.

    ``partial`` is true for a Patch, which may leave out what the object has elsewhere.
    """

    kind: str
    group: str
    body: Body
    keys: tuple[str | int, ...] = ()
    partial: bool = False

    def path(self, *keys: str | int) -> str:
        """Return the key path, from the resource's properties, of something in this object."""
        return key_path(*self.keys, *keys)

    def label(self, name: str) -> Value:
        """Return the value of one of the object's own labels."""
        return peek(self.body, "metadata", "labels", name)


def is_kubernetes(type_token: str) -> bool:
    """Return whether a type token is of the Kubernetes provider, custom resources included."""
    return type_token.startswith("kubernetes:")


def objects_in(resource: Resource) -> Iterator[KubernetesObject]:
    """Yield the Kubernetes objects that a resource declares: one, or each item of a list."""
    yield from once(resource, "_objects", lambda: tuple(_objects_of(resource)))


def _objects_of(resource: Resource) -> Iterator[KubernetesObject]:
    token_group, token_kind = _of_token(resource.type)
    yield from _objects(resource.properties, token_group, token_kind, (), _DEEPEST_LIST)


def _objects(
    body: Body, group: str, kind: str, keys: tuple[str | int, ...], depth: int
) -> Iterator[KubernetesObject]:
    """Yield the objects of one body; its own words go before those of its type token."""
    group, kind = _group_of(body, group), _kind_of(body, kind)
    if kind.endswith("List") and "items" in body and depth:
        item_kind = kind.removesuffix("List")
        for index, item in elements(body["items"]):
            if is_body(item):
                yield from _objects(item, group, item_kind, (*keys, "items", index), depth - 1)
        return
    partial = kind.endswith("Patch")
    yield KubernetesObject(
        kind=kind.removesuffix("Patch"), group=group, body=body, keys=keys, partial=partial
    )


def has_unknown_items(resource: Resource) -> bool:
    """Return whether the resource is a list whose items, or some of them, are not known yet."""
    items = peek(resource.properties, "items")
    return _of_token(resource.type)[1].endswith("List") and (
        items is UNKNOWN or any(item is UNKNOWN for _, item in elements(items))
    )


def _of_token(token: str) -> tuple[str, str]:
    """Return API group and kind of a type token such as ``kubernetes:apps/v1:Deployment``."""
    _, _, rest = token.partition(":")
    version, _, kind = rest.rpartition(":")
    group, slash, _ = version.partition("/")
    return (group if slash and group != "core" else ""), kind


def _group_of(body: Body, otherwise: str) -> str:
    version = body.get("apiVersion")
    if not isinstance(version, str):
        return otherwise
    group, slash, _ = version.partition("/")
    return group if slash and group != "core" else ""


def _kind_of(body: Body, otherwise: str) -> str:
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind:
        return otherwise
    # A Patch keeps the plain kind in its body; the token alone says that it is partial.
    return otherwise if otherwise in {f"{kind}Patch", f"{kind}List"} else kind
