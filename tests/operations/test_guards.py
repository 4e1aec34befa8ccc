"""Which cluster is remembered, and which objects somebody would miss if our namespaces went."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tokenworks.operations.guards import Place, is_theirs, remember_cluster
from tokenworks.workspace import Workspace

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


class FakeSession:
    """A checkout that reaches one cluster, with or without a state."""

    def __init__(self, root: Path, *, is_up: bool) -> None:
        kubectl = root / "kubectl"
        kubectl.write_text("#!/bin/sh\nprintf here\n")
        kubectl.chmod(0o755)
        self.workspace = Workspace(root)
        self.toolbox = SimpleNamespace(path=lambda name: root / name)
        self.stacks = SimpleNamespace(resources=lambda _: 9 if is_up else 0)


@pytest.mark.parametrize(
    ("before", "is_up", "after"),
    [
        (None, False, "here"),
        (None, True, "here"),
        ("there", True, "there"),
        ("there", False, "here"),
    ],
)
def test_a_cluster_is_noted_when_it_is_new_and_kept_while_something_is_up(
    tmp_path: Path, before: str | None, is_up: bool, after: str
) -> None:
    file = tmp_path / ".tokenworks" / "racks" / "cluster-uid"
    if before is not None:
        file.parent.mkdir(parents=True)
        file.write_text(before)
    place = Place(name="racks", platform="hosts", kubeconfig="/nowhere")
    remember_cluster(FakeSession(tmp_path, is_up=is_up), place)  # type: ignore[arg-type]
    assert file.read_text() == after
