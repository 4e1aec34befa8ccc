"""AWS resources, by what they are: several providers, and several tokens, stand for one thing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from policy.estate import Estate
from policy.resources import UNKNOWN, Body, Resource, Unknown, Value, elements, is_body
from policy.rule import Fault, Verdict

# pulumi.com/registry: `aws:ec2/subnet:Subnet`, `aws-native:ec2:Subnet`, and the components
# `awsx:lb:NetworkLoadBalancer` and `eks:index:Cluster`, which hold some of them.
_TOKEN: Final = re.compile(r"(aws|aws-native|awsx|eks):([\w/-]+):(\w+)")
_CREATED_AS: Final = ("id", "arn")


def aws_type(type_token: str) -> str:
    """Return service and kind, ``ec2.Subnet``, whichever provider has it; "" for anything else.

    Components keep their package: ``awsx.lb.NetworkLoadBalancer``, ``eks-component.Cluster``.
    """
    match = _TOKEN.fullmatch(type_token)
    if match is None:
        return ""
    package, module, kind = match.groups()
    service = module.partition("/")[0]
    if package == "eks":
        return f"eks-component.{kind}"
    return f"awsx.{service}.{kind}" if package == "awsx" else f"{service}.{kind}"


def truth(value: Value) -> bool | Unknown | None:
    """Return what a yes or no says, also one that is written as text; None where nothing does."""
    if value is UNKNOWN or isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def tags(resource: Resource) -> Iterator[tuple[str, Value]]:
    """Yield each tag, whether the provider takes them as a map or as a list of key and value."""
    given = resource.properties.get("tags")
    if is_body(given):
        yield from given.items()
    for _, tag in elements(given):
        if is_body(tag) and isinstance(key := tag.get("key"), str):
            yield key, tag.get("value")


def role_of(resource: Resource) -> Value:
    """Return the role that a resource's tags give it: ``tokenworks:role``, or any tag ``role``."""
    if resource.properties.get("tags") is UNKNOWN:
        return UNKNOWN
    named = [
        value for key, value in tags(resource) if re.split(r"[:/.]", key.lower())[-1] == "role"
    ]
    return named[0] if named else None


@lru_cache(maxsize=4)
def by_reference(estate: Estate) -> Mapping[str, Resource]:
    """Return the AWS resources of an estate by every id, ARN and name that others may use."""
    index: dict[str, Resource] = {}
    for resource in estate.resources:
        if aws_type(resource.type):
            given = (resource.properties.get(key) for key in (*_CREATED_AS, "name"))
            names = {name for name in given if isinstance(name, str)}
            for name in sorted(resource.known_as | names | {resource.name, resource.urn}):
                index.setdefault(name, resource)
    return index


@lru_cache(maxsize=4)
def of_types(estate: Estate) -> Mapping[str, tuple[Resource, ...]]:
    """Return the AWS resources of an estate by ``aws_type``."""
    index: dict[str, list[Resource]] = {}
    for resource in estate.resources:
        if kind := aws_type(resource.type):
            index.setdefault(kind, []).append(resource)
    return {kind: tuple(listed) for kind, listed in index.items()}


def bodies(value: Value, *keys: str | int) -> Iterator[tuple[tuple[str | int, ...], Body]]:
    """Yield an object, or each object of a list, with the keys that lead to it."""
    if is_body(value):
        yield keys, value
    for index, element in elements(value):
        if is_body(element):
            yield (*keys, index), element


def unseen_inside(component: Resource, estate: Estate, kind: str, remedy: str) -> Iterator[Fault]:
    """Yield a fault for a component without inputs none of whose children of a kind are seen.

    A component of another process registers with no inputs of its own (pulumi#10533); its
    children are judged instead. Where not everything is known, they may yet be.
    """
    children = of_types(estate).get(kind, ())
    seen = any(child.parent in {"", component.urn} for child in children)
    if estate.complete and not seen:
        yield Fault(
            key="",
            reason="shows neither what it was given nor what is in it",
            remedy=f"run a full preview with the policy pack, and {remedy}",
            verdict=Verdict.UNDETERMINABLE,
        )
