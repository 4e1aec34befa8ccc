"""Good manifests: written by hand after public ones, with no finding, and none of them idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from policy.estate import Estate
from policy.resources import Resource
from policy.rule import Finding
from policy.rules import RULES

FOLDER = Path(__file__).parent / "good"
FILES = sorted(FOLDER.glob("*.yaml"))
FEWEST = 100  # what the check must let pass without a word

# An engine's hostNetwork is the second one's to find; everything else is the first one's.
NODE_RULES = {"pods-never-own-their-node", "engines-stay-off-their-nodes-network"}

Manifest = dict[str, Any]


@cache
def manifests(path: Path) -> list[Manifest]:
    return list(YAML(typ="safe", pure=True).load_all(path))


def resource(manifest: Manifest) -> Resource:
    version = manifest["apiVersion"]
    group = version if "/" in version else f"core/{version}"
    name = manifest.get("metadata", {}).get("name", "")
    return Resource.of(f"kubernetes:{group}:{manifest['kind']}", name, manifest)


def findings(together: list[Manifest]) -> list[Finding]:
    """Return what every rule finds in manifests that are all there is."""
    estate = Estate.of([resource(one) for one in together])
    return [
        finding for one in estate.resources for rule in RULES for finding in rule.judge(one, estate)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_good_manifests_give_no_finding(path: Path) -> None:
    assert [str(finding) for finding in findings(manifests(path))] == []


def test_there_are_many_good_manifests_of_many_kinds() -> None:
    everything = [one for path in FILES for one in manifests(path)]
    assert len(everything) >= FEWEST
    assert len({(one["apiVersion"], one["kind"]) for one in everything}) >= FEWEST / 2


@dataclass(frozen=True)
class Place:
    """Where in the good manifests something may be spoiled."""

    file: Path
    manifest: int
    keys: tuple[str | int, ...]

    def spoiled(self, spoil: Callable[[Any], Any]) -> list[Manifest]:
        together = deepcopy(manifests(self.file))
        parent: Any = together[self.manifest]
        for key in self.keys[:-1]:
            parent = parent[key]
        parent[self.keys[-1]] = spoil(parent[self.keys[-1]])
        return together


def places(is_one: Callable[[Any], bool]) -> list[Place]:
    return [
        Place(path, index, keys)
        for path in FILES
        for index, manifest in enumerate(manifests(path))
        for keys, value in below(manifest)
        if is_one(value)
    ]


def below(
    value: Any, keys: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*keys, key), child
        yield from below(child, (*keys, key))


def is_pod(value: Any) -> bool:
    """Return whether a value is a pod of the good manifests: containers with names of their own."""
    listed = value.get("containers") if isinstance(value, dict) else None
    return isinstance(listed, list) and all("@sha256:" in one.get("image", "") for one in listed)


def is_engine(value: Any) -> bool:
    text = str(value)
    return is_pod(value) and any(word in text for word in ("/vllm", "/sglang", "/tensorrt-llm"))


DIGESTS = places(lambda value: isinstance(value, str) and "@sha256:" in value)
PODS = [place for place in places(is_pod) if place.file.stem != "daemons"]
ENGINES = places(is_engine)


def without_digest(text: str) -> str:
    """Return a text with its first image's digest gone, as a careless edit would leave it."""
    before, _, after = text.partition("@sha256:")
    return before + after[64:]


@given(st.sampled_from(DIGESTS))
def test_an_image_that_loses_its_digest_is_found_wherever_it_is(place: Place) -> None:
    rules = {finding.rule for finding in findings(place.spoiled(without_digest))}
    assert "images-are-pinned-by-digest" in rules


@given(
    st.sampled_from(PODS),
    st.sampled_from(
        [
            {"hostPID": True},
            {"hostIPC": True},
            {"hostNetwork": True},
            {"volumes": [{"name": "x", "hostPath": {"path": "/var/run/docker.sock"}}]},
            {"ephemeralContainers": [{"name": "x", "securityContext": {"privileged": True}}]},
        ]
    ),
)
def test_a_pod_that_gains_its_node_is_found_whatever_made_it(
    place: Place, gained: dict[str, Any]
) -> None:
    found = findings(place.spoiled(lambda pod: {**pod, **gained}))
    assert NODE_RULES & {finding.rule for finding in found}


@given(
    st.sampled_from(ENGINES),
    st.sampled_from(["securityContext", "automountServiceAccountToken", "hostPort", "container"]),
)
def test_an_engine_that_loses_a_restriction_is_found(place: Place, lost: str) -> None:
    def spoil(pod: dict[str, Any]) -> dict[str, Any]:
        spoiled = deepcopy(pod)
        if lost == "hostPort":
            spoiled["containers"][0]["ports"] = [{"containerPort": 8000, "hostPort": 8000}]
        elif lost == "container":
            del spoiled["containers"][0]["securityContext"]
        elif lost == "automountServiceAccountToken":
            spoiled[lost] = True
        else:
            spoiled[lost] = {"runAsUser": 0}
        return spoiled

    assert findings(place.spoiled(spoil))


def test_there_is_enough_to_spoil() -> None:
    assert len(DIGESTS) >= 60
    assert len(PODS) >= 30
    assert len(ENGINES) >= 4
