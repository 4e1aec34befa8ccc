from __future__ import annotations

from typing import Any

from policy.resources import UNKNOWN
from tokenworks.check.deployed import cluster_resources, state_resources
from tokenworks.check.places import Places

PLACES = Places(models={"llama": 7}, node_pools={}, sections={"gateway": 9})
ORIGIN = "stacks/e.yaml"
OURS = {"labels": {"tokenworks.dev/environment": "e"}}


def in_state(type_: str, **fields: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:e-serving::tokenworks::{type_}::llama-service", "type": type_} | (
        fields
    )


def thing(kind: str, name: str, namespace: str | None = None, **body: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": kind,
        **body,
        "metadata": metadata | body.get("metadata", {}),
    }


def names(found: list[dict[str, Any]]) -> list[str]:
    resources, findings = cluster_resources(found, "e", ORIGIN, PLACES)
    assert findings == []
    return [f"{one.type.rpartition(':')[2]} {one.name}" for one in resources]


def test_a_resource_of_the_state_is_what_the_provider_last_saw() -> None:
    type_ = "kubernetes:core/v1:Service"
    asked, seen = {"spec": {"type": "ClusterIP"}}, {"spec": {"type": "LoadBalancer"}}
    deployment = {"resources": [in_state(type_, id="n/llama", inputs=asked, outputs=seen)]}
    (resource,) = state_resources(deployment, ORIGIN, PLACES)
    assert resource.properties == seen
    assert (resource.type, resource.name) == (type_, "llama-service")
    assert (resource.origin, resource.line) == (ORIGIN, 7)
    assert resource.known_as == {"n/llama"}


def test_inputs_are_judged_where_there_are_no_outputs() -> None:
    deployment = {"resources": [in_state("a:b:C", inputs={"x": 1})]}
    (resource,) = state_resources(deployment, ORIGIN, PLACES)
    assert resource.properties == {"x": 1}


def test_a_secret_of_the_state_is_unknown_and_never_shown() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
    outputs = {"data": {**secret, "ciphertext": "v1:x"}}
    (resource,) = state_resources({"resources": [in_state("a:b:C", outputs=outputs)]}, "", PLACES)
    assert resource.properties == {"data": UNKNOWN}
    assert resource.is_secret("data")


def test_an_empty_state_has_no_resources() -> None:
    assert list(state_resources({}, ORIGIN, PLACES)) == []


def test_the_cluster_is_judged_where_it_is_ours_and_where_it_can_be_reached() -> None:
    found = [
        thing("Namespace", "engines", metadata=OURS),
        thing("Namespace", "theirs"),
        thing("Pod", "in-ours", "engines"),
        thing("Pod", "in-theirs", "theirs"),
        thing("Pod", "labelled", "theirs", metadata=OURS),
        thing("Service", "in-theirs", "theirs"),
        thing("Ingress", "in-theirs", "theirs"),
        thing("ConfigMap", "in-theirs", "theirs"),
        thing("StorageClass", "ours", metadata=OURS),
    ]
    assert names(found) == [
        "Namespace engines",
        "Pod engines/in-ours",
        "Pod theirs/labelled",
        "Service theirs/in-theirs",
        "Ingress theirs/in-theirs",
        "StorageClass ours",
    ]


def test_the_namespaces_of_another_environment_are_not_ours() -> None:
    other = {"labels": {"tokenworks.dev/environment": "f"}}
    found = [thing("Namespace", "n", metadata=other), thing("Pod", "p", "n")]
    assert names(found) == []


def test_what_the_server_notes_is_not_judged() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
    metadata = {"annotations": applied, "managedFields": [{}]}
    service = thing("Service", "s", "n", metadata=metadata, status={"loadBalancer": {}})
    ((resource,), _) = cluster_resources([service], "e", ORIGIN, PLACES)
    assert resource.properties == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "n", "annotations": {"kept": "yes"}},
    }


def test_an_object_of_the_cluster_has_the_line_of_its_model() -> None:
    ((resource,), _) = cluster_resources([thing("Service", "llama", "n")], "e", ORIGIN, PLACES)
    assert (resource.origin, resource.line) == (ORIGIN, 7)
