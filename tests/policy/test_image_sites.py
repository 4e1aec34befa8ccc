"""Images wherever they are named: searched for by properties, and words that are no images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policy.image_words import is_certainly_an_image, says_image
from policy.images import ImageError, ImageReference, is_floating_tag, parse_image
from policy.resources import Resource
from policy.rules.images_are_pinned_by_digest import RULE
from tests.policy.test_images import references

DIGEST = f"sha256:{'a1' * 32}"
PINNED = f"registry.example.com/fine@{DIGEST}"

# Where each kind of workload keeps its pod.
WORKLOADS = {
    "core/v1:Pod": ("spec",),
    "core/v1:PodTemplate": ("template", "spec"),
    "core/v1:ReplicationController": ("spec", "template", "spec"),
    "apps/v1:Deployment": ("spec", "template", "spec"),
    "apps/v1:DeploymentPatch": ("spec", "template", "spec"),
    "apps/v1beta1:Deployment": ("spec", "template", "spec"),
    "apps/v1:StatefulSet": ("spec", "template", "spec"),
    "apps/v1:DaemonSet": ("spec", "template", "spec"),
    "apps/v1:ReplicaSet": ("spec", "template", "spec"),
    "batch/v1:Job": ("spec", "template", "spec"),
    "batch/v1:CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "argoproj.io/v1alpha1:Rollout": ("spec", "template", "spec"),
    "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet": (
        "spec",
        "leaderWorkerTemplate",
        "workerTemplate",
        "spec",
    ),
    "ray.io/v1:RayCluster": ("spec", "headGroupSpec", "template", "spec"),
    "serving.kserve.io/v1beta1:InferenceService": ("spec", "predictor"),
    "serving.knative.dev/v1:Service": ("spec", "template", "spec"),
}


def container(image: str) -> dict[str, Any]:
    return {"name": "c", "image": image}


# Every place in a pod that names an image, filled with one.
POSITIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "container": lambda image: {"containers": [container(PINNED), container(image)]},
    "init": lambda image: {
        "containers": [container(PINNED)],
        "initContainers": [container(image)],
    },
    "sidecar": lambda image: {
        "containers": [container(PINNED)],
        "initContainers": [container(image) | {"restartPolicy": "Always"}],
    },
    "ephemeral": lambda image: {
        "containers": [container(PINNED)],
        "ephemeralContainers": [container(image)],
    },
    "volume": lambda image: {
        "containers": [container(PINNED)],
        "volumes": [{"name": "v", "image": {"reference": image}}],
    },
    "variable": lambda image: {
        "containers": [container(PINNED) | {"env": [{"name": "RELATED_IMAGE_X", "value": image}]}],
    },
}


def workload(token: str, pod: dict[str, Any]) -> Resource:
    body: dict[str, Any] = pod
    for key in reversed(WORKLOADS[token]):
        body = {key: body}
    return Resource.of(f"kubernetes:{token}", "w", body)


KINDS = st.sampled_from(sorted(WORKLOADS))
PLACES = st.sampled_from(sorted(POSITIONS))


@given(KINDS, PLACES, references())
def test_a_pinned_image_passes_and_a_loose_one_fails_in_any_place_of_any_workload(
    token: str, place: str, reference: ImageReference
) -> None:
    resource = workload(token, POSITIONS[place](str(reference)))
    assert bool(RULE.judge(resource)) is (reference.digest is None)


@given(KINDS, PLACES, references(), st.text(min_size=1, max_size=70))
def test_whatever_follows_the_at_sign_pins_nothing_unless_it_is_a_digest(
    token: str, place: str, reference: ImageReference, rest: str
) -> None:
    text = f"{reference.name}@{rest}"
    try:
        parse_image(text)
        assume(False)
    except ImageError:
        assert RULE.judge(workload(token, POSITIONS[place](text)))


_KEY = st.sampled_from(["spec", "groups", "worker", "nested", "template", "servers", "x"])


@given(st.lists(_KEY | st.just(0), max_size=8), references())
def test_a_custom_resource_may_hold_a_pod_at_any_depth(
    keys: list[str | int], reference: ImageReference
) -> None:
    body: Any = {"containers": [container(str(reference))]}
    for key in keys:
        body = [body] if key == 0 else {str(key): body}
    resource = Resource.of("kubernetes:example.com/v1:Thing", "t", {"spec": body})
    assert bool(RULE.judge(resource)) is (reference.digest is None)


@given(references(), st.sampled_from(["image", "sidecarImage", "imageName", "worker_image"]))
def test_a_custom_resources_own_image_is_found_where_it_names_registry_or_tag(
    reference: ImageReference, key: str
) -> None:
    assume(reference.registry is not None or reference.tag is not None)
    assume("." not in reference.repository.rpartition("/")[2] or reference.tag is not None)
    resource = Resource.of("kubernetes:example.com/v1:T", "t", {"spec": {key: str(reference)}})
    assert bool(RULE.judge(resource)) is (reference.digest is None)


@given(st.text(max_size=120), st.booleans())
def test_any_text_can_be_asked_whether_it_is_an_image(text: str, named: bool) -> None:
    if is_certainly_an_image(text, named=named):
        assert not any(letter.isspace() for letter in text.partition("@")[0])


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "true", "80", "webp", "nginx", "meta-llama/Llama-3.1-8B-Instruct", "a/b/c",
        "https://example.com/a.png", "oci://ghcr.io/x/y:1.0.0", "cdn.example.com/hero.png",
        "fedora.qcow2", "an image of x", "ghcr.io/x/y:v1 and more", "$(IMAGE)",
        "{{ .Values.image }}", "/data/cat.png", "-", "sum by (image) (x)",
        "projects/p/global/images/ubuntu",
    ],
)  # fmt: skip
def test_ordinary_text_is_no_image_even_under_a_name_that_says_so(text: str) -> None:
    assert not is_certainly_an_image(text, named=True)


@pytest.mark.parametrize(
    "text",
    ["redis:6379", "localhost:8000", "api.example.com:8443/v1", "quay.io/x", "db:5432", "1:2",
     "registry.example.com/a:1", "image=4", "http:8080"],
)  # fmt: skip
def test_without_such_a_name_only_a_known_registrys_reference_is_an_image(text: str) -> None:
    assert not is_certainly_an_image(text, named=False)


@pytest.mark.parametrize(
    "name",
    ["image", "IMAGE", "WORKER_IMAGE", "workerImage", "worker-image", "worker_image", "imageName",
     "IMAGE_URI", "sidecar.image", "RELATED_IMAGE_PROXY_V2", "imageRef", "initImage"],
)  # fmt: skip
def test_names_that_say_image(name: str) -> None:
    assert says_image(name)


@pytest.mark.parametrize(
    "name",
    ["", "images_per_prompt", "IMAGE_QUALITY", "imagePullPolicy", "imagePullSecrets", "imageTag",
     "IMAGE_FORMAT", "pilgrimage", "ENABLE_IMAGES", "imagery", "input-image-type", "Scrimage"],
)  # fmt: skip
def test_names_that_do_not_say_image(name: str) -> None:
    assert not says_image(name)


@pytest.mark.parametrize(
    "tag",
    ["latest", "Latest", "stable", "main", "v1", "1", "22", "7-alpine", "20-bookworm-slim",
     "latest-gpu", "nightly", "lts", "edge", "latest-cu12"],
)  # fmt: skip
def test_tags_that_move_by_custom(tag: str) -> None:
    assert is_floating_tag(tag)


@pytest.mark.parametrize(
    "tag",
    ["1.27", "v1.2.3", "20260714", "4821", "main-4f1c2b7", "nightly-20260714", "24.05-py3",
     "3.10", "1.2.3-latest", "mainline-1.27.3", "stable-2026-01-15", "latest-4f1c2b7a"],
)  # fmt: skip
def test_tags_that_name_one_build(tag: str) -> None:
    assert not is_floating_tag(tag)
