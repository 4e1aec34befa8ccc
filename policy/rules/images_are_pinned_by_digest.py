"""An image reference with a digest names one image for ever; a tag names whatever it points to.

Images are judged wherever they are named: in pods of every kind, in custom resources and charts,
in variables, arguments and settings that are images for certain, and in fields of clouds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.image_parts import digest_of
from policy.image_sites import ImageSite, image_sites, may_name_images
from policy.images import ImageError, is_digest, parse_image
from policy.resources import UNKNOWN, Body, Resource, Value, is_body
from policy.rule import Family, Fault, Rule, Severity, Verdict

_REMEDY: Final = "append the digest that `tokenworks lock` resolves, @sha256:<64 hex digits>"


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    # Docker itself also takes an image by the digest of its configuration, which is as fixed.
    takes_identifiers = resource.type.startswith("docker:")
    for site in image_sites(resource):
        if not (takes_identifiers and isinstance(site.value, str) and is_digest(site.value)):
            yield from _site_faults(site)


def _site_faults(site: ImageSite) -> Iterator[Fault]:
    if site.value is UNKNOWN or (is_body(site.value) and digest_of(site.value) is UNKNOWN):
        verdict = Verdict.UNDETERMINABLE
        yield Fault(key=site.key, reason=site.unknown, remedy=_REMEDY, verdict=verdict)
        return
    reason = _why_not_pinned(site.value)
    if reason is not None:
        given = _image_only(site.value)
        yield Fault(key=site.key, given=given, reason=reason, remedy=_REMEDY)


def _why_not_pinned(image: Value) -> str | None:
    if is_body(image):
        return _why_parts_are_not_pinned(image)
    if not isinstance(image, str) or not image:
        return "is missing, so that something else chooses the image"
    try:
        reference = parse_image(image)
    except ImageError as error:
        return str(error)
    if reference.digest is not None:
        return None
    if reference.tag is None:
        return "has neither tag nor digest, which means whatever is latest"
    return "has a tag, which can be moved, and no digest"


def _why_parts_are_not_pinned(parts: Body) -> str | None:
    return None if digest_of(parts) else "has no valid digest beside its repository"


def _image_only(image: Value) -> str | None:
    """Return the reference as given if it reads as one; other text may be anything at all."""
    if not isinstance(image, str):
        return None
    try:
        parse_image(image.partition("@")[0].rstrip(":"))
    except ImageError:
        return None
    return image


RULE: Final = Rule(
    code="P1",
    name="images-are-pinned-by-digest",
    description="Every container image is pinned by its sha256 digest.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Resolve the tag once with `tokenworks lock`, and use name:tag@sha256:<digest>.",
    references=(
        "https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy",
        "https://github.com/opencontainers/image-spec/blob/main/descriptor.md#digests",
    ),
    applies=may_name_images,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
