"""Container image references: the one parser.

Grammar: github.com/distribution/reference, ``regexp.go`` and ``normalize.go``; digests: OCI
image-spec, ``descriptor.md``. Where a reference may have any digest algorithm, a pin here is
``sha256`` with 64 lower-case hexadecimal digits and nothing else, since that is what registries
and kubelets verify.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PATH_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[A-Fa-f0-9:]+\])"
_REGISTRY: Final = re.compile(rf"{_HOST}(?::[0-9]+)?")
_REPOSITORY: Final = re.compile(rf"{_PATH_COMPONENT}(?:/{_PATH_COMPONENT})*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")

# Tags that a publisher moves to whatever is newest, with or without a flavour such as -alpine;
# a bare major version moves as well. Dates, hashes and longer numbers name one build.
_MOVING: Final = (
    "latest|stable|main|master|trunk|edge|nightly|dev|devel|develop|development|head|rolling"
    "|canary|current|next|newest|lts|release|snapshot|unstable|testing|staging|prod|production"
    "|v?[0-9]{1,2}"
)
_FLAVOUR: Final = r"[a-z]+[0-9]{0,3}"
_FLOATING_TAG: Final = re.compile(rf"(?:{_MOVING})(?:[-_.]{_FLAVOUR})*", re.IGNORECASE)

LONGEST_NAME: Final = 255  # distribution/reference: RepositoryNameTotalLengthMax
_LONGEST_REFERENCE: Final = LONGEST_NAME + len(":") + 128 + len("@sha256:") + 64


class ImageError(ValueError):
    """The text is not an image reference; the message says which part is wrong."""


@dataclass(frozen=True, kw_only=True)
class ImageReference:
    """``registry/repository:tag@digest``; registry, tag and digest may be absent."""

    repository: str
    registry: str | None = None
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        registry = f"{self.registry}/" if self.registry is not None else ""
        tag = f":{self.tag}" if self.tag is not None else ""
        digest = f"@{self.digest}" if self.digest is not None else ""
        return f"{registry}{self.repository}{tag}{digest}"

    @property
    def name(self) -> str:
        """The reference without tag and digest."""
        return f"{self.registry}/{self.repository}" if self.registry else self.repository


def parse_image(text: str) -> ImageReference:
    """Return the parts of an image reference; ``str`` of the result is the text again.

    Raises ImageError, whose message says which part is wrong and never repeats the text.
    """
    if len(text) > _LONGEST_REFERENCE:
        raise ImageError(f"is {len(text)} characters long, more than any image reference")
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise ImageError("has a malformed digest: sha256 and 64 lower-case hex digits are needed")
    folder, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ImageError("has an empty or malformed tag")
    registry, repository = _split_registry(f"{folder}{slash}{last}")
    return ImageReference(
        registry=registry,
        repository=repository,
        tag=tag if colon else None,
        digest=digest if at else None,
    )


def is_digest(text: str) -> bool:
    """Return whether the text is a whole digest, ``sha256:`` and 64 lower-case hex digits."""
    return _DIGEST.fullmatch(text) is not None


def is_floating_tag(tag: str) -> bool:
    """Return whether a tag is one that moves by custom: ``latest``, ``main``, ``v1``, ``7-alpine``.

    Two numbers (``1.27``) are not among them: some publish nothing longer.
    """
    return _FLOATING_TAG.fullmatch(tag) is not None


def _split_registry(name: str) -> tuple[str | None, str]:
    if len(name) > LONGEST_NAME:
        raise ImageError(f"has a name of {len(name)} characters, more than {LONGEST_NAME}")
    first, slash, rest = name.partition("/")
    registry = first if slash and _looks_like_a_registry(first) else None
    repository = name if registry is None else rest
    if registry is not None and not _REGISTRY.fullmatch(registry):
        raise ImageError("has a malformed registry")
    if not _REPOSITORY.fullmatch(repository):
        raise ImageError("has a malformed repository name")
    if registry is None and _IDENTIFIER.fullmatch(repository):
        raise ImageError("is a local image identifier, which no registry can resolve")
    return registry, repository


def _looks_like_a_registry(component: str) -> bool:
    has_mark = any(mark in component for mark in ".:[") or component != component.lower()
    return has_mark or component == "localhost"
