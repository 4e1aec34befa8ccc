"""Which image a node boots, as node groups, templates, look-ups and node classes say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from policy.aws import aws_type, bodies, truth
from policy.objects import KubernetesObject, objects_in
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Fault, Verdict
from policy.versions import Exactness, is_node_release

Keys = tuple[str | int, ...]

_ID: Final = re.compile(r"ami-[0-9a-f]{8,17}")
_SSM_IMAGE: Final = re.compile(r"resolve:ssm:(?P<path>[^:]+)(?::(?P<version>[^:]+))?")
# A part of a path or name that stands for a release: a date, or three numbers.
_RELEASE: Final = re.compile(r"(?:^|[-_.v])(?:20[0-9]{6}|[0-9]+\.[0-9]+\.[0-9]+)(?:$|[-_.])")
# Parts of AWS's public parameters whose value changes with each release.
_MOVING: Final = re.compile(r"(?:^|[-_])(?:latest|recommended|current)(?:$|[-_])")
_PUBLIC_PARAMETERS: Final = "/aws/service/"
_WILDCARDS: Final = ("*", "?")
_BY_HAND: Final = "name the image by id or by its release, which `aws ssm get-parameter` tells"

_RELEASE_VERSION: Final = Exactness(
    is_exact=is_node_release,
    missing="is missing, which means the newest node image (amazon-eks-ami#996)",
    loose="is not one exact release",
    remedy="give one such as 1.36.2-20260714, or an own image in a launch template",
)
_IMAGE_ID: Final = Exactness(
    is_exact=lambda text: _ID.fullmatch(text) is not None or _is_pinned_alias(text),
    missing="is missing, so that something else chooses the image",
    loose="is no image's id, and may stand for another image tomorrow",
    remedy=_BY_HAND,
)
_RECIPE_PARENT: Final = Exactness(
    is_exact=lambda text: (
        _ID.fullmatch(text) is not None or re.search(r"/\d+\.\d+\.\d+(?:/\d+)?$", text) is not None
    ),
    missing="is missing",
    loose="is no image's id and no ARN that ends in one version",
    remedy="give an image's id, or the ARN of one version such as .../2026.7.14/1",
)


def image_faults(resource: Resource) -> Iterator[Fault]:
    """Yield a fault for each image in a resource that is not one release."""
    read = _READERS.get(aws_type(resource.type))
    if read is not None:
        yield from read(resource.properties)
        return
    for thing in objects_in(resource):
        if thing.kind == "EC2NodeClass" and thing.group == "karpenter.k8s.aws":
            yield from _node_class_faults(thing)


def _node_group_faults(group: Body) -> Iterator[Fault]:
    if "releaseVersion" in group or not _image_is_the_templates(group):
        yield from _RELEASE_VERSION.faults("releaseVersion", group.get("releaseVersion"))


def _image_is_the_templates(group: Body) -> bool:
    """Return whether the launch template, and not EKS, chooses the image.

    A custom image forbids amiType, version and releaseVersion on the group
    (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    return group.get("launchTemplate") is not None and group.get("amiType") in (None, "CUSTOM")


def _component_group_faults(group: Body) -> Iterator[Fault]:
    """Judge a node group of the component ``eks``, which may have its image by id as well."""
    if not group:
        return
    if "amiId" in group:
        yield from _IMAGE_ID.faults("amiId", group["amiId"])
    elif truth(group.get("ignoreReleaseVersion")) or "releaseVersion" not in group:
        yield from _RELEASE_VERSION.faults("releaseVersion", None)
    else:
        yield from _RELEASE_VERSION.faults("releaseVersion", group["releaseVersion"])


def _template_faults(template: Body) -> Iterator[Fault]:
    data = template.get("launchTemplateData")
    if data is UNKNOWN:
        yield from _IMAGE_ID.faults("launchTemplateData", UNKNOWN)
    for keys, body in ((("launchTemplateData",), data), ((), template)):
        if is_body(body) and "imageId" in body:  # without one, EKS or the group chooses it
            yield from _IMAGE_ID.faults(key_path(*keys, "imageId"), body["imageId"])


def _instance_faults(instance: Body) -> Iterator[Fault]:
    key = "imageId" if "imageId" in instance else "ami"
    if key in instance or instance.get("launchTemplate") is None:
        yield from _IMAGE_ID.faults(key, instance.get(key))


def _is_pinned_alias(text: str) -> bool:
    match = _SSM_IMAGE.fullmatch(text)
    if match is None:
        return False
    version = match["version"]
    return (version is not None and version.isdecimal()) or _names_a_release(match["path"])


def _names_a_release(path: str) -> bool:
    """Return whether a path holds a release in one part, and nothing that moves in any other."""
    parts = path.strip("/").split("/")
    return not any(map(_MOVING.search, parts)) and any(map(_RELEASE.search, parts))


def _get_ami_faults(call: Body) -> Iterator[Fault]:
    most_recent = call.get("mostRecent")
    if most_recent not in (None, False, "false"):
        yield Fault(
            key="mostRecent",
            given=most_recent,
            reason="takes whichever matching image is newest that day",
            remedy=_BY_HAND,
            verdict=Verdict.UNDETERMINABLE if most_recent is UNKNOWN else Verdict.FAIL,
        )
    yield from _pattern_faults(call)


def _pattern_faults(call: Body) -> Iterator[Fault]:
    """Yield a fault for names with wildcards, which anybody's image matches without an owner."""
    owned = any(isinstance(owner, str) for _, owner in elements(call.get("owners")))
    for keys, given in _names_asked_for(call):
        if given is UNKNOWN:
            yield from _IMAGE_ID.faults(key_path(*keys), given)
        elif isinstance(given, str) and any(sign in given for sign in _WILDCARDS):
            whose = "" if owned else ", anybody's among them, since no owner is asked for"
            yield Fault(
                key=key_path(*keys),
                given=given,
                reason=f"matches more images with every release{whose}",
                remedy=_BY_HAND,
            )


def _names_asked_for(call: Body) -> Iterator[tuple[Keys, Value]]:
    if call.get("filters") is UNKNOWN:
        yield ("filters",), UNKNOWN
    for index, one in elements(call.get("filters")):
        if one is UNKNOWN or peek(one, "name") is UNKNOWN:
            yield ("filters", index), UNKNOWN
        elif peek(one, "name") in {"name", "image-id"}:
            values = peek(one, "values")
            if values is UNKNOWN:
                yield ("filters", index, "values"), UNKNOWN
            for number, value in elements(values):
                yield ("filters", index, "values", number), value
    expression = call.get("nameRegex")
    if expression is not None:  # a regular expression matches later releases as well
        yield ("nameRegex",), UNKNOWN if expression is UNKNOWN else f"{expression}*"


def _parameter_faults(call: Body) -> Iterator[Fault]:
    name = call.get("name", call.get("path"))
    key = "name" if "name" in call else "path"
    if name is UNKNOWN:
        yield Fault(
            key=key,
            reason="is not known, and may name an image that changes",
            remedy=_BY_HAND,
            verdict=Verdict.UNDETERMINABLE,
        )
    elif isinstance(name, str) and _is_public_image(name) and not _names_a_release(name):
        yield Fault(
            key=key,
            given=name,
            reason="holds another value with every release",
            remedy="give the path that names the release instead of recommended or latest",
        )


def _is_public_image(path: str) -> bool:
    """Return whether AWS publishes an image, or a list of them, under a path.

    Its other public parameters are names of regions and services
    (docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html).
    """
    others = f"{_PUBLIC_PARAMETERS}global-infrastructure"
    return path.startswith(_PUBLIC_PARAMETERS) and not path.startswith(others)


def _recipe_faults(recipe: Body) -> Iterator[Fault]:
    yield from _RECIPE_PARENT.faults("parentImage", recipe.get("parentImage"))
    components = recipe.get("components")
    if components is UNKNOWN:
        yield from _RECIPE_PARENT.faults("components", UNKNOWN)
    for keys, component in bodies(components, "components"):
        key = key_path(*keys, "componentArn")
        yield from _RECIPE_PARENT.faults(key, component.get("componentArn"))


def _node_class_faults(thing: KubernetesObject) -> Iterator[Fault]:
    """Judge Karpenter's node class (karpenter.sh/docs/concepts/nodeclasses)."""
    terms = peek(thing.body, "spec", "amiSelectorTerms")
    if terms is UNKNOWN or (terms in (None, ()) and not thing.partial):
        yield from _IMAGE_ID.faults(thing.path("spec", "amiSelectorTerms"), terms or None)
    for index, term in elements(terms):
        keys: Keys = ("spec", "amiSelectorTerms", index)
        if term is UNKNOWN:
            yield from _IMAGE_ID.faults(thing.path(*keys), UNKNOWN)
        elif is_body(term) and "id" in term:
            yield from _IMAGE_ID.faults(thing.path(*keys, "id"), term["id"])
        elif is_body(term):
            yield from _selected_faults(thing, keys, term)


def _selected_faults(thing: KubernetesObject, keys: Keys, term: Body) -> Iterator[Fault]:
    key = next((key for key in ("alias", "name", "ssmParameter") if key in term), "tags")
    selected = term.get(key)
    exact = Exactness(
        is_exact=lambda text: key != "tags" and _RELEASE.search(text) is not None,
        missing="selects images by their tags, and takes the newest of them",
        loose="selects the newest of several images",
        remedy="give an image's id, or an alias with a release such as al2023@v20260714",
    )
    yield from exact.faults(thing.path(*keys, key), None if key == "tags" else selected)


_READERS: Final[dict[str, Callable[[Body], Iterator[Fault]]]] = {
    "eks.NodeGroup": _node_group_faults,
    "eks.Nodegroup": _node_group_faults,
    "eks-component.ManagedNodeGroup": _component_group_faults,
    "eks-component.NodeGroup": _component_group_faults,
    "eks-component.NodeGroupV2": _component_group_faults,
    "ec2.LaunchTemplate": _template_faults,
    "ec2.LaunchConfiguration": _instance_faults,
    "autoscaling.LaunchConfiguration": _instance_faults,
    "ec2.Instance": _instance_faults,
    "ec2.SpotInstanceRequest": _instance_faults,
    "ec2.getAmi": _get_ami_faults,
    "ec2.getAmiIds": _pattern_faults,
    "ssm.getParameter": _parameter_faults,
    "ssm.getParametersByPath": _parameter_faults,
    "imagebuilder.ImageRecipe": _recipe_faults,
}
IMAGE_TYPES: Final = frozenset(_READERS)
