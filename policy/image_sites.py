"""Every place of a resource where an image is named: by a field, a variable, a word, a setting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy.image_fields import has_image_fields, image_fields
from policy.image_parts import is_in_parts
from policy.image_words import (
    images_in_arguments,
    images_in_settings,
    is_certainly_an_image,
    is_related_image,
    says_image,
)
from policy.objects import KubernetesObject, has_unknown_items, is_kubernetes, objects_in
from policy.pods import (
    PATTERN_DOMAINS,
    PodSpec,
    is_container_list,
    is_of,
    pod_specs,
    unknown_pod_spec,
)
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek

Keys = tuple[str | int, ...]

_MAY_LACK: Final = "is not known, and may lack a digest"
_AND_THE_IMAGES: Final = "is not known, nor are the images in it"
# API groups of Kubernetes itself and of the Gateway API: their images are fields of pods, so that
# nothing else in them is searched (kubernetes.io/docs/reference/kubernetes-api).
_WITHOUT_OWN_IMAGES: Final = frozenset({"", "apps", "batch", "extensions", "policy", "autoscaling"})
_BUILT_IN_DOMAIN: Final = ".k8s.io"
_KUSTOMIZE: Final = "kustomize.config.k8s.io"
# Custom resources that speak of images without running them: what to scan, sign, build or refuse.
_ABOUT_IMAGES: Final = (
    "image.toolkit.fluxcd.io",
    "argocd-image-updater.argoproj.io",
    "policy.sigstore.dev",
    *PATTERN_DOMAINS,
    "kpack.io",
    "shipwright.io",
    "build.openshift.io",
    "image.openshift.io",
)
_CHART_GROUP: Final = "helm.sh"
# What stands beside an image only where a container is described, as in Tekton and Argo.
_OF_A_CONTAINER: Final = frozenset(
    {"command", "args", "script", "imagePullPolicy", "volumeMounts", "envFrom", "env", "workingDir"}
)
_PROSE: Final = (".md", ".txt", ".rst", ".adoc", ".html")
_CHART_TEXT: Final = frozenset({"values", "valuesContent"})  # Argo CD, and k3s' HelmChart
_DEEPEST: Final = 40


@dataclass(frozen=True, kw_only=True)
class ImageSite:
    """One image: where it is named and what is given there, text or parts; None: nothing.

    ``unknown`` is what to say of a value that is not known.
    """

    key: str
    value: Value
    unknown: str = _MAY_LACK


def may_name_images(type_token: str) -> bool:
    """Return whether resources of this type may name images."""
    return is_kubernetes(type_token) or has_image_fields(type_token)


def image_sites(resource: Resource) -> Iterator[ImageSite]:
    """Yield every image of a resource, and everything unknown that may hold one."""
    for key, value in image_fields(resource):
        yield ImageSite(key=key, value=value)
    if not is_kubernetes(resource.type):
        return
    if has_unknown_items(resource):
        says = "holds objects that are not known, and may run images"
        yield ImageSite(key="items", value=UNKNOWN, unknown=says)
    for thing in objects_in(resource):
        yield from _object_sites(thing)


def _object_sites(thing: KubernetesObject) -> Iterator[ImageSite]:
    keys = unknown_pod_spec(thing)
    if keys is not None:
        yield ImageSite(key=thing.path(*keys), value=UNKNOWN, unknown=_AND_THE_IMAGES)
    for pod in pod_specs(thing):
        yield from _pod_sites(thing, pod)
    if thing.kind == "ConfigMap" and not thing.group:
        yield from _config_map_sites(thing)
    elif thing.group == _CHART_GROUP:
        values = thing.body.get("values")
        yield from _searched(values, (*thing.keys, "values"), named=False)
    elif _may_hold_own_images(thing):
        for key, child in thing.body.items():
            if key not in {"metadata", "status"}:
                yield from _searched_child(thing.body, key, child, thing.keys)


def _may_hold_own_images(thing: KubernetesObject) -> bool:
    group = thing.group
    built_in = group in _WITHOUT_OWN_IMAGES or group.endswith(_BUILT_IN_DOMAIN)
    return (not built_in or group == _KUSTOMIZE) and not is_of(group, _ABOUT_IMAGES)


def _pod_sites(thing: KubernetesObject, pod: PodSpec) -> Iterator[ImageSite]:
    yield from _unknown_containers(thing, pod)
    for keys, container in pod.containers():
        if "image" in container or not thing.partial:
            yield ImageSite(key=thing.path(*keys, "image"), value=container.get("image"))
        yield from _container_words(container, (*thing.keys, *keys))
    for index, volume in elements(pod.body.get("volumes")):
        reference = peek(volume, "image", "reference")
        if reference is not None:
            keys = (*pod.keys, "volumes", index, "image", "reference")
            yield ImageSite(key=thing.path(*keys), value=reference)
    annotations_keys = (*pod.labels_keys[:-1], "annotations")
    annotations = peek(thing.body, *annotations_keys)
    for name, value in annotations.items() if is_body(annotations) else ():
        yield from _named(name.rpartition("/")[2], value, (*thing.keys, *annotations_keys, name))


def _unknown_containers(thing: KubernetesObject, pod: PodSpec) -> Iterator[ImageSite]:
    for name, listed in pod.lists():
        keys: Keys = (*pod.keys, name)
        if listed is UNKNOWN:
            yield ImageSite(key=thing.path(*keys), value=UNKNOWN, unknown=_AND_THE_IMAGES)
        for index, element in elements(listed):
            if element is UNKNOWN:
                says = "is not known, nor is its image"
                yield ImageSite(key=thing.path(*keys, index), value=UNKNOWN, unknown=says)


def _container_words(container: Body, keys: Keys) -> Iterator[ImageSite]:
    """Yield the images that a container is told: by its environment and its command line."""
    for index, variable in elements(container.get("env")):
        name = peek(variable, "name")
        if isinstance(name, str):
            yield from _named(name, peek(variable, "value"), (*keys, "env", index, "value"))
    for field in ("command", "args"):
        listed = [
            word if isinstance(word, str) else "" for _, word in elements(container.get(field))
        ]
        for index, text in images_in_arguments(listed):
            yield ImageSite(key=key_path(*keys, field, index), value=text)


def _named(name: str, value: Value, keys: Keys) -> Iterator[ImageSite]:
    """Yield a value under a name if it is certainly an image, or may be one and is not known."""
    named = says_image(name)
    if value is UNKNOWN:
        if named:
            yield ImageSite(key=key_path(*keys), value=UNKNOWN)
    elif isinstance(value, str) and value and not value.startswith("$("):
        certain = is_related_image(name) or is_certainly_an_image(value, named=named)
        yield from [ImageSite(key=key_path(*keys), value=value)] if certain else ()


def _config_map_sites(thing: KubernetesObject) -> Iterator[ImageSite]:
    data = thing.body.get("data")
    for name, value in data.items() if is_body(data) else ():
        keys: Keys = (*thing.keys, "data", name)
        if isinstance(value, str) and ("\n" in value or value.startswith(("{", "["))):
            if "mage" in value.lower() and not name.lower().endswith(_PROSE):
                yield from _text_sites(value, keys)
        else:
            yield from _named(name, value, keys)


def _text_sites(text: str, keys: Keys) -> Iterator[ImageSite]:
    """Yield the images of a document that is held as text, all of them under the text's key."""
    if text.lstrip().startswith(("{", "[")):
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if document is not None:
            body = Resource.of("", "", {"json": document}).properties
            for site in _searched(body, (), named=False):
                yield ImageSite(key=key_path(*keys), value=site.value)
            return
    for image in images_in_settings(text):
        yield ImageSite(key=key_path(*keys), value=image)


def _searched(value: Value, keys: Keys, *, named: bool) -> Iterator[ImageSite]:
    """Yield the images anywhere in a value; ``named`` if what holds it says image."""
    if len(keys) > _DEEPEST:
        return
    for index, element in elements(value):
        yield from _searched(element, (*keys, index), named=named)
    if not is_body(value):
        return
    if is_in_parts(value, named=named):
        yield ImageSite(key=key_path(*keys), value=value)
        return
    for key, child in value.items():
        yield from _searched_child(value, key, child, keys)


def _searched_child(parent: Body, key: str, child: Value, keys: Keys) -> Iterator[ImageSite]:
    # Each child of ``images`` is one, whatever it is called.
    named = says_image(key) or key == "images" or (bool(keys) and keys[-1] == "images")
    if isinstance(child, str) or child is UNKNOWN:
        yield from _searched_text(parent, key, child, (*keys, key))
    elif not is_container_list(key, child):  # those are pods' and have been read as such
        yield from _searched(child, (*keys, key), named=named)


def _searched_text(parent: Body, key: str, text: Value, keys: Keys) -> Iterator[ImageSite]:
    if key == "image" and not _OF_A_CONTAINER.isdisjoint(parent):
        yield ImageSite(key=key_path(*keys), value=text)
        yield from _container_words(parent, keys[:-1])
    elif key == "value" and isinstance(name := parent.get("name"), str):
        if is_related_image(name):
            yield from _named(name, text, keys)
    elif isinstance(text, str) and key in _CHART_TEXT and "\n" in text:
        yield from _text_sites(text, keys)
    elif says_image(key):
        yield from _named(key, text, keys)
