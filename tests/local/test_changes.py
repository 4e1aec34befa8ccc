"""A changed environment previews as an update of what it should touch, and of nothing else."""

from __future__ import annotations

import json

import pytest

from tests.local.checkout import Checkout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

FILE = "stacks/local.yaml"
QWEN = "    peak_concurrency: 12\n    replicas: 2\n"


def steps(checkout: Checkout, program: str = "serving") -> set[tuple[str, str]]:
    """Operation and name of everything that would not stay as it is."""
    preview = checkout.pulumi("preview", "--stack", f"local-{program}", "--json")
    found = json.loads(preview.stdout)["steps"]
    changes = (step for step in found if step["op"] not in ("same", "read"))
    return {(step["op"], step["urn"].rsplit("::", 1)[-1]) for step in changes}


def test_one_more_replica_touches_its_deployment_only(checkout: Checkout) -> None:
    checkout.edit(FILE, QWEN, QWEN.replace("replicas: 2", "replicas: 3"))
    assert steps(checkout) == {("update", "qwen3-32b-deployment")}
    assert steps(checkout, "cluster") == set()


def test_one_more_node_is_created_and_nothing_else_touched(checkout: Checkout) -> None:
    checkout.edit(FILE, "nodes: 2", "nodes: 3")
    assert steps(checkout, "cluster") == {("create", "h100-2-node")}
    assert steps(checkout) == set()


def test_another_context_length_touches_the_configuration_and_what_reads_it(
    checkout: Checkout,
) -> None:
    checkout.edit(FILE, "max_model_len_tokens: 4096", "max_model_len_tokens: 2048")
    config = "llama-3-1-8b-instruct-config"
    assert steps(checkout) == {
        ("replace", config),
        ("update", "llama-3-1-8b-instruct-deployment"),
        ("update", "gateway-config"),
    }
    assert steps(checkout, "cluster") == set()


def test_a_longer_context_also_raises_what_the_gateway_lets_through(checkout: Checkout) -> None:
    checkout.edit(FILE, "max_model_len_tokens: 32768", "max_model_len_tokens: 40960")
    touched = {name for _, name in steps(checkout)}
    assert touched == {
        "qwen3-32b-config",
        "qwen3-32b-deployment",
        "gateway-config",
        "gateway-deployment",
    }


def test_a_renamed_model_is_a_new_one_and_the_gateway_is_told(checkout: Checkout) -> None:
    checkout.edit(FILE, "name: qwen3-32b", "name: qwen")
    checkout.edit(FILE, "- model: qwen3-32b", "- model: qwen")
    found = steps(checkout)
    created = {name for op, name in found if op == "create"}
    deleted = {name for op, name in found if op == "delete"}
    assert all(name.startswith("qwen") and not name.startswith("qwen3") for name in created)
    assert all(name.startswith("qwen3-32b") for name in deleted)
    assert len(created) == len(deleted) == 16
    rest = found - {("create", name) for name in created} - {("delete", name) for name in deleted}
    assert rest == {("update", "gateway-config")}


def test_another_driver_version_relabels_its_nodes_only(checkout: Checkout) -> None:
    text = "    nodes: 3\n    driver_version: 580.126.20"
    checkout.edit(FILE, text, text.replace("580.126.20", "580.105.08"))
    assert steps(checkout, "cluster") == {("update", f"l4-{i}-node") for i in range(3)}
    assert steps(checkout) == set()


def test_a_preview_counts_what_it_would_change(checkout: Checkout) -> None:
    checkout.edit(FILE, QWEN, QWEN.replace("replicas: 2", "replicas: 3"))
    changes = json.loads(checkout.tokenworks("preview", "local", "--json").stdout)
    counts = changes["local-serving"]
    assert {kind: count for kind, count in counts.items() if kind != "same"} == {
        "create": 0,
        "update": 1,
        "replace": 0,
        "delete": 0,
    }
