"""Fields of clouds and of Docker that hold images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from policy.resources import UNKNOWN, Resource, Value, elements, is_body, key_path

Keys = tuple[str | int, ...]

# Each path ends at an image; "[]" steps into every element of a list. Any step may be JSON text.
# pulumi.com/registry/packages/{aws,aws-native,docker}/api-docs
_FIELDS: Final[dict[tuple[str, str, str], tuple[tuple[str, ...], ...]]] = {
    ("aws", "ecs", "TaskDefinition"): (("containerDefinitions", "[]", "image"),),
    ("aws", "lambda", "Function"): (("imageUri",), ("code", "imageUri")),
    ("aws", "batch", "JobDefinition"): (
        ("containerProperties", "image"),
        ("nodeProperties", "nodeRangeProperties", "[]", "container", "image"),
        ("ecsProperties", "taskProperties", "[]", "containers", "[]", "image"),
    ),
    ("aws", "sagemaker", "Model"): (("primaryContainer", "image"), ("containers", "[]", "image")),
    ("aws", "apprunner", "Service"): (
        ("sourceConfiguration", "imageRepository", "imageIdentifier"),
    ),
    ("docker", "index", "Container"): (("image",),),
    ("docker", "index", "RemoteImage"): (("name",),),
    ("docker", "index", "Service"): (("taskSpec", "containerSpec", "image"),),
}


def has_image_fields(type_token: str) -> bool:
    """Return whether resources of this type hold images in fields that are known here."""
    return _identity(type_token) in _FIELDS


def image_fields(resource: Resource) -> Iterator[tuple[str, Value]]:
    """Yield key path and value of every image field that is present; UNKNOWN where none is known.

    Text that should be JSON and is not counts as unknown.
    """
    for path in _FIELDS.get(_identity(resource.type), ()):
        yield from _follow(resource.properties, path, ())


def _identity(type_token: str) -> tuple[str, str, str]:
    package, _, rest = type_token.partition(":")
    module, _, name = rest.rpartition(":")
    return package.removesuffix("-native"), module.partition("/")[0], name


def _follow(value: Value, path: tuple[str, ...], keys: Keys) -> Iterator[tuple[str, Value]]:
    if not path:
        if value is not None:
            yield key_path(*keys), value
        return
    if isinstance(value, str):
        value = _read_json(value)
    if value is UNKNOWN:
        yield key_path(*keys), UNKNOWN
    elif path[0] == "[]":
        for index, element in elements(value):
            yield from _follow(element, path[1:], (*keys, index))
    elif is_body(value) and path[0] in value:
        yield from _follow(value[path[0]], path[1:], (*keys, path[0]))


def _read_json(text: str) -> Value:
    try:
        raw = json.loads(text)
    except ValueError:
        return UNKNOWN
    return Resource.of("", "", {"json": raw}).properties["json"]
