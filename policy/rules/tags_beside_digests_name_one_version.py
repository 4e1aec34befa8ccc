"""A tag beside a digest tells people what the digest is; one that moves tells them nothing.

The digest alone decides what runs, so this only warns. An image without a digest is refused by
the rule on digests, which names its tag or the lack of one; saying it twice would help nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.image_parts import digest_of, tag_of
from policy.image_sites import image_sites, may_name_images
from policy.images import ImageError, is_floating_tag, parse_image
from policy.resources import Resource, Value, is_body
from policy.rule import Family, Fault, Rule, Severity, Verdict


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    for site in image_sites(resource):
        tag = _tag_beside_a_digest(site.value)
        if tag is not None and is_floating_tag(tag):
            yield Fault(
                key=site.key,
                given=tag,
                reason="is a tag that moves, so that nobody can read from it what the digest is",
                remedy="write the exact version that the digest was resolved from, or no tag",
                verdict=Verdict.WARN,
            )


def _tag_beside_a_digest(image: Value) -> str | None:
    if is_body(image):
        return tag_of(image) if isinstance(digest_of(image), str) else None
    if not isinstance(image, str):
        return None
    try:
        reference = parse_image(image)
    except ImageError:
        return None
    return reference.tag if reference.digest is not None else None


RULE: Final = Rule(
    code="P2",
    name="tags-beside-digests-name-one-version",
    description="A tag beside a digest names one version: not latest, main, or a bare major one.",
    family=Family.PINS,
    severity=Severity.MEDIUM,
    remediation="Write the exact version beside the digest, or leave the tag out.",
    references=(
        "https://kubernetes.io/docs/concepts/configuration/overview/#container-images",
        "https://github.com/kyverno/policies/issues/1540",
    ),
    applies=may_name_images,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
