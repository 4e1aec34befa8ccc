"""Which objects in our namespaces somebody would miss if the namespaces went."""

from __future__ import annotations

from typing import Any

import pytest

from tokenworks.operations.guards import is_theirs

OURS = {"app.kubernetes.io/part-of": "tokenworks"}


def found(kind: str = "PersistentVolumeClaim", **metadata: Any) -> dict[str, Any]:
    given = {"name": "it", "namespace": "tokenworks-engines", **metadata}
    return {"kind": kind, "metadata": given}


@pytest.mark.parametrize(
    "kind", ["PersistentVolumeClaim", "Secret", "Issuer", "Pod", "StatefulSet"]
)
@pytest.mark.parametrize("namespace", ["tokenworks-engines", "tokenworks-gateway"])
def test_what_people_put_there_is_missed(kind: str, namespace: str) -> None:
    assert is_theirs(found(kind, namespace=namespace))
    assert is_theirs(found(kind, namespace=namespace, labels={"app": "theirs"}, annotations={}))


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": OURS},
        {"namespace": "default"},
        {"ownerReferences": [{"kind": "ReplicaSet"}]},
        {"annotations": {"cert-manager.io/certificate-name": "gateway"}},
    ],
    ids=["ours", "elsewhere", "of a controller", "of cert-manager"],
)
def test_what_is_ours_or_a_controllers_is_not(metadata: dict[str, Any]) -> None:
    assert not is_theirs(found("Secret", **metadata))


@pytest.mark.parametrize("kind", ["ConfigMap", "ServiceAccount", "NetworkPolicy", "Endpoints"])
def test_what_is_put_into_every_namespace_is_not(kind: str) -> None:
    """Such as a mesh's authority, which would come back however often it is deleted."""
    assert not is_theirs(found(kind))


def test_what_has_no_namespace_is_not() -> None:
    cluster_wide = {"kind": "Node", "metadata": {"name": "it"}}
    assert not is_theirs(cluster_wide)
