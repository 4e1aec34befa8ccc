"""An environment is touched only where it was brought up, and not in another's place.

The cluster of `local` stands in for one that exists, and `racks` for an environment on it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.local.checkout import Checkout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

FILE = "stacks/racks.yaml"
LABELS = {"app.kubernetes.io/part-of": "tokenworks", "tokenworks.dev/environment": "racks"}
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fine-tuned, namespace: tokenworks-engines}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture
def racks(checkout: Checkout) -> Iterator[Checkout]:
    """A checkout with an environment of platform `hosts` that was never brought up."""
    file = checkout.path / FILE
    shutil.copy(checkout.path / "stacks/example-hosts.yaml", file)
    checkout.edit(FILE, "~/.kube/example-hosts", str(checkout.kubeconfig()))
    try:
        yield checkout
    finally:
        file.unlink()
        for settings in checkout.path.glob("stacks/Pulumi.racks-*.yaml"):
            settings.unlink()
        for stack in ("racks-cluster", "racks-serving"):
            checkout.pulumi("stack", "rm", stack, "--yes", "--force", check=False)
        shutil.rmtree(checkout.path / ".tokenworks/racks", ignore_errors=True)


def bring_up(checkout: Checkout, kubeconfig: str) -> None:
    """Give the environment a state, as if it had been brought up with a kubeconfig."""
    stack = "racks-cluster"
    checkout.pulumi("stack", "init", stack)
    exported = json.loads(checkout.pulumi("stack", "export", "--stack", stack).stdout)
    kind = "pulumi:providers:kubernetes"
    exported["deployment"]["resources"] = [
        {
            "urn": f"urn:pulumi:{stack}::tokenworks::{kind}::cluster",
            "custom": True,
            "id": "6f1e1bb0-0000-4000-8000-000000000001",
            "type": kind,
            "inputs": {"kubeconfig": kubeconfig, "version": "4.0.0"},
        }
    ]
    text = json.dumps(exported)
    script = f"source .tokenworks/env && pulumi stack import --stack {stack}"
    checkout.run(["bash", "-c", script], stdin=text, check=True)


def refused(checkout: Checkout, *commands: tuple[str, ...]) -> str:
    """What all of these commands say, which change nothing."""
    before = checkout.objects()
    (told,) = {checkout.tokenworks(*each, check=False).stderr for each in commands}
    names = {(one["kind"], one["metadata"]["uid"]) for one in checkout.objects()}
    assert {(one["kind"], one["metadata"]["uid"]) for one in before} <= names
    assert told.startswith("error: ")
    return told


EVERY = (("preview", "racks"), ("up", "racks", "--yes"), ("down", "racks", "--yes"))


def test_a_kubeconfig_that_leads_to_another_cluster_is_refused(racks: Checkout) -> None:
    """Somebody has switched its context: every name would be right, and every object wrong."""
    bring_up(racks, str(racks.kubeconfig()).replace("/local/", "/elsewhere/"))
    folder = racks.path / ".tokenworks/racks"
    folder.mkdir(exist_ok=True)
    (folder / "cluster-uid").write_text("11111111-2222-4333-8444-555555555555")
    (namespace,) = racks.get("namespace", "kube-system")
    told = refused(racks, *EVERY)
    assert f"leads to cluster {namespace['metadata']['uid']}" in told
    assert "it was brought up in 11111111-2222-4333-8444-555555555555" in told
    assert "correct cluster.kubeconfig or the file's current context" in told


def test_a_note_of_a_cluster_that_plain_pulumi_emptied_is_not_believed(racks: Checkout) -> None:
    folder = racks.path / ".tokenworks/racks"
    folder.mkdir(exist_ok=True)
    (folder / "cluster-uid").write_text("11111111-2222-4333-8444-555555555555")
    counts = json.loads(racks.tokenworks("preview", "racks", "--json").stdout)
    assert set(counts) == {"racks-cluster", "racks-serving"}


def test_objects_without_a_state_are_refused_as_somebody_elses(racks: Checkout) -> None:
    """A checkout that lost its state would make keys anew and adopt the rest."""
    labels = [f"{name}={value}" for name, value in LABELS.items()]
    racks.kubectl("create", "configmap", "theirs", "--namespace=default")
    racks.kubectl("label", "configmap", "theirs", "--namespace=default", *labels)
    try:
        told = refused(racks, *EVERY)
    finally:
        racks.kubectl("delete", "configmap", "theirs", "--namespace=default")
    assert "state of racks: is not in this checkout, but its objects exist" in told
    assert "ConfigMap/default/theirs" in told


def test_another_platform_under_the_same_name_is_refused(racks: Checkout) -> None:
    """Its stacks would be dropped, and what they made would go on."""
    bring_up(racks, f"{racks.path}/.tokenworks/racks/kubeconfig")
    told = refused(racks, *EVERY)
    assert "is hosts in its file, and racks-cluster was brought up on simulated" in told
    assert "put platform: simulated back and run `tokenworks down racks`" in told


def test_a_local_environment_is_not_taken_for_one_on_machines(checkout: Checkout) -> None:
    shutil.copy(checkout.path / "stacks/example-hosts.yaml", checkout.path / "stacks/local.yaml")
    told = refused(checkout, ("preview", "local"), ("down", "local", "--yes"))
    assert "is hosts in its file, and local-cluster was brought up on simulated" in told


def test_a_namespace_does_not_go_with_what_others_put_into_it(racks: Checkout) -> None:
    """Such as the only copy of a model, from which a volume was filled."""
    bring_up(racks, str(racks.path / "kubeconfig"))
    racks.kubectl("apply", "--filename=-", stdin=CLAIM)
    try:
        told = refused(racks, ("down", "racks", "--yes"))
    finally:
        racks.kubectl("delete", "--filename=-", stdin=CLAIM)
    assert told == (
        "error: taking racks down: would delete its namespaces with what others put there: "
        "PersistentVolumeClaim/tokenworks-engines/fine-tuned; move or delete that first, or, if "
        "all of it may go, run what `tokenworks down racks --explain` prints; nothing was "
        "deleted.\n"
    )
