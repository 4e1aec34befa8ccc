"""Which text is an image reference for certain, where no field of an API says so.

Environment variables, arguments, settings and custom resources hold images as ordinary text
(piraeus-operator#833, trustyai-service-operator#778). Two things make one certain: a name that
says image together with the shape of a reference, or a registry that everybody knows together
with a tag or a digest. Anything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.images import ImageError, parse_image

# Operators are told their operands' images so (sdk.operatorframework.io, "Air gapped").
_RELATED_IMAGE: Final = re.compile(r"RELATED_IMAGE_.+")
_IMAGE_NAME: Final = re.compile(
    r"(?:.*[^A-Za-z])?(?:image|IMAGE)(?:[_-]?(?:name|ref|reference|uri|url|NAME|REF|REFERENCE|URI|URL))?"
    r"|(?:.*[a-z0-9])?Image(?:Name|Ref|Reference|Uri|URI|Url|URL)?"
    r"|image(?:Name|Ref|Reference|Uri|URI|Url|URL)"
)
# Registries that serve container images to the public or by a cloud's fixed name.
_KNOWN_REGISTRY: Final = re.compile(
    r"(?:index\.|registry-1\.)?docker\.io|quay\.io|ghcr\.io|lscr\.io|(?:[a-z]+\.)?gcr\.io"
    r"|registry\.k8s\.io|nvcr\.io|cgr\.dev|mcr\.microsoft\.com|docker\.elastic\.co"
    r"|[a-z0-9-]+-docker\.pkg\.dev|[a-z0-9]+\.azurecr\.io|registry\.gitlab\.com"
    r"|registry\.(?:access\.|connect\.)?redhat\.(?:io|com)"
    r"|public\.ecr\.aws|[0-9]{12}\.dkr\.ecr(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?"
)
# Pictures, and images of disks: named like a container image and none.
_FILE: Final = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|ico|bmp|avif|iso|img|qcow2?|vmdk|vhdx?|raw|ova|tar|t?gz|xz|zip)$",
    re.IGNORECASE,
)
_FLAG_IN_SCRIPT: Final = re.compile(r"(?<!\S)--?((?:[\w-]*[_-])?image)[= ][\"']?([^\s\"';|&)]+)")
_SETTING: Final = re.compile(
    r"^[ \t]*(?:-[ \t]+|export[ \t]+)?[\"']?([\w./-]+)[\"']?[ \t]*[:=][ \t]*"
    r"[\"']?([^\s\"',#]+)[\"']?[ \t]*,?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)


def says_image(name: str) -> bool:
    """Return whether a key, variable or flag says that its value is an image."""
    return _IMAGE_NAME.fullmatch(name) is not None or is_related_image(name)


def is_related_image(name: str) -> bool:
    """Return whether a variable is one by which an operator is told an image, always."""
    return _RELATED_IMAGE.fullmatch(name) is not None


def is_certainly_an_image(text: str, *, named: bool) -> bool:
    """Return whether the text is an image reference, perhaps with a malformed tag or digest.

    ``named`` is true where the text stands under a name that says image.
    """
    named_part, at, _ = text.partition("@")
    try:
        reference = parse_image(named_part.rstrip(":"))
    except ImageError:
        return False
    marked = bool(at) or reference.tag is not None or named_part.endswith(":")
    if not marked and _FILE.search(named_part):
        return False
    if named and (marked or reference.registry is not None):
        return True
    registry = reference.registry or ""
    return marked and _KNOWN_REGISTRY.fullmatch(registry) is not None


def images_in_arguments(words: list[str]) -> Iterator[tuple[int, str]]:
    """Yield index and text of each image among a command's words.

    Forms: ``--worker-image=X``, ``--worker-image X``, a known registry's reference alone or as any
    flag's value, and ``--image X`` within a script.
    """
    named = False
    for index, word in enumerate(words):
        if any(letter.isspace() for letter in word):
            yield from ((index, match[2]) for match in _FLAG_IN_SCRIPT.finditer(word))
            named = False
            continue
        flag, equals, value = word.partition("=")
        own_name = says_image(flag.lstrip("-"))
        candidate = value if equals else word
        if is_certainly_an_image(candidate, named=(own_name if equals else named)):
            yield index, candidate
        named = word.startswith("-") and not equals and own_name


def images_in_settings(text: str) -> Iterator[str]:
    """Yield the images of a YAML, JSON or env file that is held as text.

    Only lines whose key says image, and whose value names its registry: a file may be about
    anything.
    """
    for match in _SETTING.finditer(text):
        key, value = match[1], match[2]
        registry_like = "/" in value and any(mark in value.partition("/")[0] for mark in ".:")
        named = registry_like and says_image(key.rpartition("/")[2])
        if named and is_certainly_an_image(value, named=True):
            yield value
