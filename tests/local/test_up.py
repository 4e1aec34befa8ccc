"""The environment `local` on the real API server, as `up` leaves it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.checkout import Checkout, comparable
from tests.local.conftest import Local
from tokenworks.naming import ENGINES_NAMESPACE, GATEWAY_NAMESPACE

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

ENGINES = f"--namespace={ENGINES_NAMESPACE}"
GATEWAY = f"--namespace={GATEWAY_NAMESPACE}"


def test_everything_is_created_without_a_warning(local: Local) -> None:
    assert "local-cluster: 21 created" in local.said
    assert "local-serving: 55 created" in local.said
    assert "warning" not in local.said.lower()


def test_the_checkout_stays_clean(local: Local) -> None:
    assert local.checkout.git_status() == ""


def test_a_second_preview_changes_nothing(checkout: Checkout) -> None:
    changes = json.loads(checkout.tokenworks("preview", "local", "--json").stdout)
    assert set(changes) == {"local-cluster", "local-serving"}
    for counts in changes.values():
        changed = {kind: count for kind, count in counts.items() if kind != "same"}
        assert not any(changed.values())
        assert counts["same"] > 20


def test_a_second_up_changes_no_object(checkout: Checkout) -> None:
    before = checkout.objects()
    said = checkout.tokenworks("up", "local", "--yes").stderr
    assert said.count("nothing changed") == 2
    assert comparable(checkout.objects()) == comparable(before)


def test_keys_are_not_made_anew_for_an_environment_that_is_up(checkout: Checkout) -> None:
    """As in the checkout of a colleague: callers hold the keys that are there."""
    settings = checkout.path / "stacks" / "Pulumi.local-serving.yaml"
    before = settings.read_bytes()
    key = ("config", "get", "gateway-key-search", "--stack", "local-serving")
    held = checkout.pulumi(*key).stdout
    settings.unlink()
    try:
        for command in (("preview", "local"), ("up", "local", "--yes")):
            refused = checkout.tokenworks(*command, check=False)
            assert refused.returncode == 1
            assert f"the tenants' keys are not here: {settings} is missing" in refused.stderr
            assert not settings.exists()
        # Plain Pulumi makes a file, which has a salt and no key.
        checkout.pulumi("preview", "--stack", "local-serving", check=False)
        assert settings.exists()
        refused = checkout.tokenworks("up", "local", "--yes", check=False)
        assert f"{settings} holds none; take the file from" in refused.stderr
        (remedy,) = re.findall("`pulumi (config refresh [^`]*)`", refused.stderr)
        assert f"remove {settings} and write it" in refused.stderr
        settings.unlink()
        checkout.pulumi(*remedy.split())
        assert checkout.pulumi(*key).stdout == held
        assert checkout.tokenworks("up", "local", "--yes").stderr.count("nothing changed") == 2
    finally:
        settings.write_bytes(before)


@pytest.mark.parametrize("given", ["", "of-another-project"], ids=["empty", "another"])
def test_a_passphrase_in_the_shell_does_not_take_the_place_of_ours(
    checkout: Checkout, given: str
) -> None:
    """Pulumi would ask that variable first, and encrypt tenants' keys by it."""
    in_shell = ["env", f"PULUMI_CONFIG_PASSPHRASE={given}"]
    key = "pulumi config get gateway-key-search --stack local-serving"
    sourced = ["bash", "-c", f"source .tokenworks/env && {key}"]
    assert checkout.run([*in_shell, *sourced], check=True).stdout.startswith("tw-")
    preview = [*checkout.command, "preview", "local", "--json"]
    changes = json.loads(checkout.run([*in_shell, *preview], check=True).stdout)
    assert set(changes) == {"local-cluster", "local-serving"}


def test_plain_pulumi_works_in_the_checkout(checkout: Checkout) -> None:
    stacks = json.loads(checkout.pulumi("stack", "ls", "--json").stdout)
    assert [stack["name"] for stack in stacks] == ["local-cluster", "local-serving"]
    preview = checkout.pulumi("preview", "--stack", "local-serving", "--expect-no-changes")
    assert "warning" not in preview.stdout.lower()


def test_the_commands_that_explain_prints_are_the_ones_that_work(checkout: Checkout) -> None:
    lines = checkout.tokenworks("preview", "local", "--explain").stdout.splitlines()
    assert lines[0] == f"source {checkout.path / '.tokenworks' / 'env'}"
    for line in lines[1:]:
        program, *arguments = line.split()
        assert program == "pulumi"
        checkout.pulumi(*arguments)


def test_every_pod_of_ours_is_ready(checkout: Checkout) -> None:
    pods = checkout.get("pods", "--all-namespaces", "--selector=tokenworks.dev/role!=weights")
    names = sorted(pod["metadata"]["labels"]["tokenworks.dev/role"] for pod in pods)
    assert names == [
        *["engine"] * 4,
        *["gateway"] * 2,
        *["rate-limit"] * 2,
        "rate-limit-store",
    ]
    for pod in pods:
        conditions = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
        assert conditions["Ready"] == "True"


def test_weights_came_before_the_engines_and_old_ones_went_after(checkout: Checkout) -> None:
    jobs = {
        one["metadata"]["name"].rpartition("-")[0]: one for one in checkout.get("jobs", ENGINES)
    }
    rollouts = {one["metadata"]["name"]: one for one in checkout.get("deployments", ENGINES)}
    assert len(jobs) == 2 * len(rollouts)
    for model, rollout in rollouts.items():
        filled, collected = (jobs[f"{model}-{step}"] for step in ("populate", "collect"))
        began = rollout["metadata"]["creationTimestamp"]
        assert filled["status"]["completionTime"] <= began
        assert began <= collected["metadata"]["creationTimestamp"]
        for job in (filled, collected):
            assert job["status"]["succeeded"] == 1


def test_the_doctor_finds_everything_well(checkout: Checkout) -> None:
    findings = json.loads(checkout.tokenworks("doctor", "local", "--json").stdout)
    assert {finding["well"] for finding in findings} == {True}
    assert {"cluster", "local-serving", "node h100-0"} <= {f["subject"] for f in findings}


def test_engines_have_no_address_outside_the_cluster(checkout: Checkout) -> None:
    services = checkout.get("services", ENGINES)
    assert {service["metadata"]["name"] for service in services} == {
        "llama-3-1-8b-instruct",
        "qwen3-32b",
    }
    for service in services:
        assert service["spec"]["type"] == "ClusterIP"
        assert service["spec"]["clusterIP"] == "None"


def test_only_the_gateway_has_a_load_balancer_and_it_opens_no_node_port(
    checkout: Checkout,
) -> None:
    services = checkout.get("services", "--all-namespaces")
    balancers = [one for one in services if one["spec"]["type"] != "ClusterIP"]
    assert [one["metadata"]["name"] for one in balancers] == ["gateway"]
    assert all("nodePort" not in port for port in balancers[0]["spec"]["ports"])


def test_namespaces_refuse_pods_that_are_not_restricted(checkout: Checkout) -> None:
    for namespace in (ENGINES, GATEWAY):
        arguments = ("run", "intruder", "--image=busybox", namespace, "--dry-run=server")
        done = checkout.kubectl(*arguments, check=False)
        assert done.returncode != 0
        assert 'violates PodSecurity "restricted:latest"' in done.stderr


def test_what_no_policy_opens_is_closed(checkout: Checkout) -> None:
    policies = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]
        for one in checkout.get("networkpolicies", "--all-namespaces")
    }
    for namespace in (ENGINES_NAMESPACE, GATEWAY_NAMESPACE):
        deny = policies.pop((namespace, "default-deny"))
        assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert {name for _, name in policies} == {
        "gateway-from-callers",
        "gateway-to-engines",
        "gateway-to-rate-limit",
        "rate-limit-from-gateway",
        "rate-limit-to-store",
        "rate-limit-store-from-rate-limit",
        "llama-3-1-8b-instruct-from-gateway",
        "llama-3-1-8b-instruct-weights-old-to-nobody",
        "llama-3-1-8b-instruct-weights-to-source",
        "qwen3-32b-from-gateway",
        "qwen3-32b-weights-old-to-nobody",
        "qwen3-32b-weights-to-source",
    }
    for (namespace, name), spec in policies.items():
        if "-weights-" in name:
            assert spec["policyTypes"] == ["Ingress", "Egress"]
            assert "ingress" not in spec
            step = spec["podSelector"]["matchLabels"]["tokenworks.dev/step"]
            assert (step == "populate") is ("egress" in spec)
        elif namespace == ENGINES_NAMESPACE:
            assert spec["policyTypes"] == ["Ingress"]
            (rule,) = spec["ingress"]
            (source,) = rule["from"]
            assert source["podSelector"]["matchLabels"] == {"tokenworks.dev/role": "gateway"}
            assert [port["port"] for port in rule["ports"]] == [8000]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for child in value.values():
            yield from strings(child)
    elif isinstance(value, list):
        for child in value:
            yield from strings(child)
    elif isinstance(value, str):
        yield value


def test_no_secret_is_readable_in_state_settings_or_cluster(local: Local) -> None:
    checkout = local.checkout
    keys = [
        checkout.pulumi("config", "get", name, "--stack", "local-serving").stdout.strip()
        for name in ("gateway-key-search", "gateway-key-assistant")
    ]
    private_key = (checkout.path / ".tokenworks/local/tls/tls.key").read_text("utf-8")
    body = private_key.splitlines()[1]
    assert all(len(key) > 40 for key in keys)
    places = [*checkout.path.glob("stacks/*"), *checkout.path.glob(".tokenworks/state/**/*")]
    readable = "".join(file.read_text("utf-8", "replace") for file in places if file.is_file())
    in_cluster = "\n".join(strings(checkout.objects()))
    for secret in (*keys, body):
        assert secret not in readable
        assert secret not in local.said
    for key in keys:
        assert key not in in_cluster


def test_nobody_else_can_read_what_the_machine_keeps(local: Local) -> None:
    machine = local.checkout.path / ".tokenworks"
    assert machine.stat().st_mode & 0o077 == 0
    for name in ("passphrase", "env", "local/tls/ca.key", "local/tls/tls.key", "local/kubeconfig"):
        assert (machine / name).stat().st_mode & 0o077 == 0, name


def test_pods_reach_the_api_server_with_no_token(checkout: Checkout) -> None:
    for pod in checkout.get("pods", "--all-namespaces"):
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert not [v for v in pod["spec"].get("volumes", ()) if "projected" in v]


def test_weights_are_mounted_read_only_and_checked_before_the_engine(checkout: Checkout) -> None:
    for pod in checkout.get("pods", ENGINES, "--selector=tokenworks.dev/role=engine"):
        (gate,) = pod["spec"]["initContainers"]
        (engine,) = pod["spec"]["containers"]
        assert gate["command"][:2] == ["python3", "/etc/weights-gate/verify.py"]
        assert gate["image"] == engine["image"]
        for container in (gate, engine):
            (mount,) = [m for m in container["volumeMounts"] if m["name"] == "weights"]
            assert mount["readOnly"] is True
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "weights"]
        assert volume["persistentVolumeClaim"]["readOnly"] is True
        assert "hostIPC" not in pod["spec"]


def test_the_manifest_in_the_cluster_is_the_one_in_the_checkout(checkout: Checkout) -> None:
    maps = checkout.get("configmaps", ENGINES, "--selector=tokenworks.dev/role=weights")
    texts = [text for one in maps if (text := one["data"].get("manifest.json"))]
    found = [json.loads(text) for text in texts]
    assert len(found) == 2 * 2  # for the gate and for the Job, of both models
    committed = {
        content["revision"]: content
        for file in Path(checkout.path, "stacks", "weights").glob("*.json")
        if (content := json.loads(file.read_text("utf-8")))
    }
    for manifest in found:
        content = committed[manifest["revision"]]
        assert manifest["repository"] == content["repository"]
        assert manifest["files"] == content["files"]
