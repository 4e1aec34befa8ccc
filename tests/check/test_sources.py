from __future__ import annotations

import json
from typing import Any

import pytest

from tokenworks.check.judge import judge
from tokenworks.check.sources import Reading

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: n}\n"
LIST = """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: one}
  - apiVersion: v1
    kind: Service
    metadata: {name: two}
    spec:
      selector: {app: vllm}
      type: NodePort
"""


def manifests(text: str, origin: str = "a.yaml") -> Reading:
    reading = Reading()
    reading.add_manifests(text, origin)
    return reading


def listed(entries: Any) -> Reading:
    reading = Reading()
    reading.add_list(json.dumps(entries), "r.json")
    return reading


def named(reading: Reading) -> list[tuple[str, str, int | None]]:
    return [(one.type, one.name, one.line) for one in reading.resources]


def test_manifests_become_resources_with_name_and_line() -> None:
    text = (
        f"# Source: chart/templates/s.yaml\n{SERVICE}---\napiVersion: apps/v1\nkind: Deployment\n"
    )
    text += "metadata: {generateName: d-}\n---\n{}\n---\n# nothing\n"
    reading = manifests(text)
    assert named(reading) == [
        ("kubernetes:core/v1:Service", "n/s", 2),
        ("kubernetes:apps/v1:Deployment", "d-", 6),
    ]
    assert reading.findings == []


def test_the_items_of_a_list_are_resources_with_lines_of_their_own() -> None:
    assert named(manifests(LIST)) == [
        ("kubernetes:core/v1:Pod", "one", 4),
        ("kubernetes:core/v1:Service", "two", 7),
    ]


def test_items_of_a_typed_list_have_its_kind() -> None:
    text = "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}}]"
    assert named(manifests(text)) == [("kubernetes:core/v1:Pod", "a", 3)]


def test_an_empty_list_is_nothing() -> None:
    for items in ("[]", "null"):
        reading = manifests(f"apiVersion: v1\nkind: List\nitems: {items}")
        assert (reading.resources, reading.findings) == ([], [])


def test_a_finding_has_the_line_of_its_key() -> None:
    reading = manifests(LIST)
    placed = [reading.placed(finding) for finding in judge(reading.resources).findings]
    assert ("spec.type", 12) in {(one.key, one.line) for one in placed}


def test_a_finding_about_what_is_missing_has_the_line_of_the_nearest_parent() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n    - name: a\n"
    reading = manifests(text)
    lines = {
        one.line
        for one in map(reading.placed, judge(reading.resources).findings)
        if one.key == "spec.containers[0].image"
    }
    assert lines == {6}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("kind: Pod", "has no apiVersion, so that nobody can tell what it is"),
        ("apiVersion: v1", "has no kind"),
        ("a: 1", "has no apiVersion and no kind"),
        ("apiVersion: 1\nkind: Pod", "has no apiVersion"),
        ("apiVersion: v1\nkind: ''", "has no kind"),
        ("[1, 2]", "is no Kubernetes object"),
        ("only text", "is no Kubernetes object"),
        ("apiVersion: v1\nkind: List\nitems: [x]", "is no Kubernetes object"),
    ],
)
def test_what_is_no_object_is_named_with_file_and_line(document: str, reason: str) -> None:
    reading = manifests(f"{SERVICE}---\n{document}\n")
    assert len(reading.resources) == 1
    (finding,) = reading.findings
    assert reason in finding.reason
    assert finding.origin == "a.yaml"
    assert finding.line is not None
    assert finding.line >= 5


def test_a_template_that_was_not_rendered_says_how_to_render_it() -> None:
    (finding,) = manifests("kind: {{ .Values.kind }}\n").findings
    assert finding.remedy.startswith("render templates first")


def test_objects_that_are_data_already_have_no_lines() -> None:
    reading = Reading()
    reading.add_objects([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}], "cluster")
    assert named(reading) == [("kubernetes:core/v1:Pod", "p", None)]


def test_a_list_of_resources_may_use_pythons_names_for_cloud_resources() -> None:
    rule = {"protocol": "tcp", "from_port": 8000, "to_port": 8000, "cidr_blocks": ["0.0.0.0/0"]}
    type_ = "aws:ec2/securityGroup:SecurityGroup"
    reading = listed([{"type": type_, "name": "g", "properties": {"ingress": [rule]}}])
    keys = {finding.key for finding in judge(reading.resources).findings}
    assert "ingress[0].cidrBlocks[0]" in keys


def test_the_names_of_kubernetes_objects_are_left_alone() -> None:
    data = {"some_key": "a_value"}
    entry = {"type": "kubernetes:core/v1:ConfigMap", "properties": {"data": data}}
    assert listed([entry]).resources[0].properties == {"data": data}


@pytest.mark.parametrize(
    "entry", [{}, {"type": 1}, {"type": ""}, {"type": "a", "properties": []}, 5, None]
)
def test_an_entry_that_is_no_resource_is_named_and_hides_no_other(entry: Any) -> None:
    reading = listed([entry, {"type": "a:b:C", "name": "x", "properties": {}}])
    assert len(reading.resources) == 1
    assert "[0] is no resource" in reading.findings[0].reason


def test_a_list_that_is_no_list_is_refused() -> None:
    assert "is no list of resources" in listed({"type": "a"}).findings[0].reason
