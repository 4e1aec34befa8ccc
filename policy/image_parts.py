"""Images that are written in parts, as charts and operators do: repository, tag, digest."""

from __future__ import annotations

import re
from typing import Final

from policy.images import ImageError, is_digest, parse_image
from policy.resources import UNKNOWN, Body, Unknown, Value

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST_KEYS: Final = ("digest", "sha", "sha256")
_TAG_KEYS: Final = ("tag", "newTag", "version")
_PULL_POLICY_KEYS: Final = ("pullPolicy", "imagePullPolicy")


def is_in_parts(body: Body, *, named: bool) -> bool:
    """Return whether an object describes an image; ``named`` if it stands under such a name.

    Besides Helm's ``{repository, tag}`` these are kustomize's ``{name, newTag}`` and the GPU
    operator's ``{repository, image, version}``.
    """
    if "newTag" in body:
        return True
    repository = body.get("repository")
    if named:
        marks = "tag" in body or any(key in body for key in _DIGEST_KEYS)
        return marks or (repository is not None and _names_an_image(repository))
    if not isinstance(repository, str) or not _names_an_image(repository):
        return False
    if isinstance(body.get("image"), str) and "version" in body:
        return True
    has_policy = any(key in body for key in _PULL_POLICY_KEYS)
    return "tag" in body and (has_policy or _has_registry(repository) or "digest" in body)


def digest_of(body: Body) -> str | Unknown | None:
    """Return the whole digest among the parts, UNKNOWN if one may be, or None."""
    parts = [body.get(key) for key in (*_DIGEST_KEYS, *_TAG_KEYS)]
    for key, part in zip((*_DIGEST_KEYS, *_TAG_KEYS), parts, strict=True):
        digest = _digest_in(key, part, body.get("repository"))
        if digest is not None:
            return digest
    return UNKNOWN if UNKNOWN in parts else None


def tag_of(body: Body) -> str | None:
    """Return the tag among the parts without a digest that is appended to it, if known."""
    for key in _TAG_KEYS:
        tag = body.get(key)
        if isinstance(tag, str) and not is_digest(tag):
            return tag.partition("@")[0]
    return None


def _digest_in(key: str, part: Value, repository: Value) -> str | None:
    if not isinstance(part, str):
        return None
    if is_digest(part):
        return part
    if key in _TAG_KEYS and is_digest(part.partition("@")[2]):  # tag: v1@sha256:...
        return part.partition("@")[2]
    bare = key in {"sha", "sha256"}  # kube-prometheus-stack writes the hex digits alone
    split = key == "tag" and isinstance(repository, str) and repository.endswith("@sha256")
    return f"sha256:{part}" if (bare or split) and _HEX.fullmatch(part) else None


def _names_an_image(repository: Value) -> bool:
    if not isinstance(repository, str):
        return repository is UNKNOWN
    try:
        parse_image(repository.removesuffix("@sha256"))
    except ImageError:
        return False
    return True


def _has_registry(repository: str) -> bool:
    return parse_image(repository.removesuffix("@sha256")).registry is not None
