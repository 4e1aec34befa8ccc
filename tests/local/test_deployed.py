"""The nightly check of what is deployed: the stacks' state, and what the cluster has become."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.checkout import Checkout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

ENGINES = "tokenworks-engines"
SERVICE = ("service", "qwen3-32b", "--namespace", ENGINES)
INTRUDER = """\
apiVersion: v1
kind: Service
metadata: {name: way-in, namespace: tokenworks-engines}
spec:
  type: NodePort
  selector: {tokenworks.dev/model: qwen3-32b}
  ports: [{port: 80, targetPort: 8000}]
"""


@pytest.fixture
def patched(checkout: Checkout) -> Iterator[Checkout]:
    """A checkout whose cluster somebody changed behind its back; undone after the test."""
    checkout.kubectl("apply", "--filename", "-", stdin=INTRUDER)
    try:
        yield checkout
    finally:
        checkout.kubectl("delete", "--filename", "-", stdin=INTRUDER)


def test_what_is_deployed_is_good(checkout: Checkout) -> None:
    done = checkout.tokenworks("check", "local", "--deployed", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Good: ")


def test_a_way_in_that_no_program_made_is_found(patched: Checkout, tmp_path: Path) -> None:
    sarif = tmp_path / "deployed.sarif"
    command = ("check", "local", "--deployed", "--sarif", str(sarif))
    done = patched.tokenworks(*command, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"kubernetes:core/v1:Service {ENGINES}/way-in" in done.stdout
    assert "only-the-gateway-has-a-load-balancer" in done.stdout
    results = json.loads(sarif.read_text("utf-8"))["runs"][0]["results"]
    assert any("way-in" in one["message"]["text"] for one in results)


def test_a_service_that_was_turned_public_is_found(checkout: Checkout) -> None:
    # A headless Service cannot become a load balancer, so the address is asked for anew.
    (before,) = checkout.get(*SERVICE)
    metadata = {key: before["metadata"][key] for key in ("name", "namespace", "labels")}
    spec = {key: before["spec"][key] for key in ("selector", "ports")}
    written = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    public = {**written, "spec": {**spec, "type": "LoadBalancer"}}
    private = {**written, "spec": {**spec, "clusterIP": "None"}}
    try:
        checkout.kubectl("replace", "--force", "--filename", "-", stdin=json.dumps(public))
        done = checkout.tokenworks("check", "local", "--deployed", check=False)
    finally:
        checkout.kubectl("replace", "--force", "--filename", "-", stdin=json.dumps(private))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"kubernetes:core/v1:Service {ENGINES}/qwen3-32b" in done.stdout


def test_a_cluster_that_cannot_be_reached_is_no_pass(checkout: Checkout) -> None:
    kubeconfig = checkout.kubeconfig()
    aside = kubeconfig.with_suffix(".aside")
    kubeconfig.rename(aside)
    try:
        done = checkout.tokenworks("check", "local", "--deployed", check=False)
    finally:
        aside.rename(kubeconfig)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "cannot be looked at" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_cluster_that_exists_is_read_with_its_own_credentials(checkout: Checkout) -> None:
    """Those that the environment names; stacks of that environment were never brought up."""
    file = checkout.path / "stacks/racks.yaml"
    shutil.copy(checkout.path / "stacks/example-hosts.yaml", file)
    try:
        checkout.edit("stacks/racks.yaml", "~/.kube/example-hosts", str(checkout.kubeconfig()))
        done = checkout.tokenworks("check", "racks", "--deployed", check=False)
    finally:
        file.unlink()
    assert "stack racks-serving\n" in done.stdout
    assert "cluster of racks" not in done.stdout


def test_pulumis_own_analysis_of_the_state_runs_the_pack(checkout: Checkout) -> None:
    command = ("policy", "analyze", "--policy-pack", "policy/tokenworks-policy")
    for stack in ("local-cluster", "local-serving"):
        done = checkout.pulumi(*command, "--stack", stack, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
