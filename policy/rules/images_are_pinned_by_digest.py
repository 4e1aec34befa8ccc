"""An image reference with a digest names one image for ever; a tag names whatever it points to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.images import ImageError, is_digest, parse_image
from policy.objects import KubernetesObject, has_unknown_items, is_kubernetes, objects_in
from policy.pods import PodSpec, pod_specs, unknown_pod_spec
from policy.resources import UNKNOWN, Resource, Value, elements, is_body, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

Keys = tuple[str | int, ...]

_REMEDY: Final = "append the digest that `tokenworks lock` resolves, @sha256:<64 hex digits>"


def _faults(resource: Resource) -> Iterator[Fault]:
    if has_unknown_items(resource):
        yield _unknown("items", "holds objects that are not known, and may run images")
    for thing in objects_in(resource):
        keys = unknown_pod_spec(thing)
        if keys is not None:
            yield _unknown(thing.path(*keys), "is not known, nor are the images in it")
        for pod in pod_specs(thing):
            yield from _pod_faults(thing, pod)


def _pod_faults(thing: KubernetesObject, pod: PodSpec) -> Iterator[Fault]:
    yield from _unknown_containers(thing, pod)
    for keys, container in pod.containers():
        if "image" in container or not thing.partial:
            yield from _image_faults(thing.path(*keys, "image"), container.get("image"))
    for index, volume in elements(pod.body.get("volumes")):
        reference = peek(volume, "image", "reference")
        if reference is not None:
            keys = (*pod.keys, "volumes", index, "image", "reference")
            yield from _image_faults(thing.path(*keys), reference)


def _unknown_containers(thing: KubernetesObject, pod: PodSpec) -> Iterator[Fault]:
    for name, listed in pod.lists():
        keys: Keys = (*pod.keys, name)
        if listed is UNKNOWN:
            yield _unknown(thing.path(*keys), "is not known, nor are the images in it")
        for index, element in elements(listed):
            if element is UNKNOWN:
                yield _unknown(thing.path(*keys, index), "is not known, nor is its image")


def _image_faults(key: str, image: Value) -> Iterator[Fault]:
    if image is UNKNOWN or peek(image, "digest") is UNKNOWN:
        yield _unknown(key, "is not known, and may lack a digest")
        return
    reason = _why_not_pinned(image)
    if reason is not None:
        yield Fault(key=key, given=_image_only(image), reason=reason, remedy=_REMEDY)


def _why_not_pinned(image: Value) -> str | None:
    if is_body(image):  # charts and custom resources write {repository, tag, digest}
        digest = image.get("digest")
        pinned = isinstance(digest, str) and is_digest(digest)
        return None if pinned else "has no valid digest beside its repository"
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


def _image_only(image: Value) -> str | None:
    """Return the reference as given if it reads as one; other text may be anything at all."""
    if not isinstance(image, str):
        return None
    try:
        parse_image(image.partition("@")[0].rstrip(":"))
    except ImageError:
        return None
    return image


def _unknown(key: str, reason: str) -> Fault:
    return Fault(key=key, reason=reason, remedy=_REMEDY, verdict=Verdict.UNDETERMINABLE)


RULE: Final = Rule(
    name="images-are-pinned-by-digest",
    description="Every container image is pinned by its sha256 digest.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Resolve the tag once with `tokenworks lock`, and use name:tag@sha256:<digest>.",
    references=(
        "https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy",
        "https://github.com/opencontainers/image-spec/blob/main/descriptor.md#digests",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
