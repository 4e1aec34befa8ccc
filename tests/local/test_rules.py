"""What must never ship is refused by the check, by `up`, and by a bare `pulumi up`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.local.checkout import Checkout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("local")]

SERVING = "tokenworks/programs/serving.py"
GUARD = "tokenworks/programs/entry.py"
SERVICE = "tokenworks/components/model_server.py"
POD = "tokenworks/components/engine_pod.py"
LAST = '    pulumi.export("models", [model.name for model in context.plan.models])\n'
CHART = """
    from pulumi_kubernetes.helm.v3 import Release

    Release("metrics", chart="prometheus", version=">=27", namespace="default", opts=context.opts)
"""


@dataclass(frozen=True)
class Bypass:
    """A change that breaks one rule, and what the refusal must name."""

    file: str
    old: str
    new: str
    rule: str
    resource: str
    reason: str
    remedy: str


BYPASSES = {
    "an engine behind a load balancer": Bypass(
        file=SERVICE,
        old='"type": "ClusterIP",\n                # Headless: the gateway balances over the pods '
        'itself, by requests in flight.\n                "cluster_ip": "None",',
        new='"type": "LoadBalancer",',
        rule="only-the-gateway-has-a-load-balancer",
        resource="-service",
        reason="would publish an engine",
        remedy="use type ClusterIP",
    ),
    "an engine on the latest tag": Bypass(
        file=POD,
        old='"name": "engine",\n        "image": model.image.reference',
        new='"name": "engine",\n        "image": "nvcr.io/nvidia/tensorrt-llm/release:latest"',
        rule="images-are-pinned-by-digest",
        resource="qwen3-32b-deployment",
        reason="has a tag, which can be moved, and no digest",
        remedy="append the digest",
    ),
    "an engine without a digest": Bypass(
        file=POD,
        old='"name": "engine",\n        "image": model.image.reference',
        new='"name": "engine",\n        "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"',
        rule="images-are-pinned-by-digest",
        resource="qwen3-32b-deployment",
        reason="has a tag, which can be moved, and no digest",
        remedy="append the digest",
    ),
    "a chart version as a range": Bypass(
        file=SERVING,
        old=LAST,
        new=LAST + CHART,
        rule="charts-have-one-exact-version",
        resource="metrics",
        reason=">=27",
        remedy="give the one version",
    ),
    "a package version as a range": Bypass(
        file="requirements.lock",
        old="pulumi==3.272.0",
        new="pulumi>=3.272.0",
        rule="packages-are-pinned-by-hash",
        resource="requirements.lock",
        reason="asks for >=3.272.0",
        remedy="write name==version",
    ),
}
bypasses = pytest.mark.parametrize("bypass", BYPASSES.values(), ids=BYPASSES)


def assert_named(bypass: Bypass, text: str) -> None:
    """A refusal names resource, rule, reason and remedy."""
    said = " ".join(text.split())
    for part in (bypass.rule, bypass.resource, bypass.reason, bypass.remedy):
        assert part in said, f"{part!r} is not in:\n{text}"


def assert_told(bypass: Bypass, text: str) -> None:
    """What people read is the refusal, and no traceback."""
    assert_named(bypass, text)
    assert "Traceback" not in text


@bypasses
def test_the_check_refuses(checkout: Checkout, bypass: Bypass) -> None:
    checkout.edit(bypass.file, bypass.old, bypass.new)
    done = checkout.tokenworks("check", "local", check=False)
    assert done.returncode == 1
    assert_told(bypass, done.stdout)


@bypasses
def test_up_refuses_and_changes_nothing(checkout: Checkout, bypass: Bypass) -> None:
    before = {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in ours(checkout)}
    checkout.edit(bypass.file, bypass.old, bypass.new)
    done = checkout.tokenworks("up", "local", "--yes", check=False)
    assert done.returncode == 1
    assert_told(bypass, done.stderr)
    after = {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in ours(checkout)}
    assert after == before


@bypasses
def test_a_bare_pulumi_up_refuses(checkout: Checkout, bypass: Bypass) -> None:
    checkout.edit(bypass.file, bypass.old, bypass.new)
    command = ("up", "--yes", "--skip-preview", "--stack", "local-serving")
    done = checkout.pulumi(*command, check=False)
    assert done.returncode != 0
    assert_told(bypass, done.stdout + done.stderr)


@pytest.mark.parametrize(
    "bypass", [b for b in BYPASSES.values() if b.file in (SERVICE, POD)], ids=lambda b: b.rule
)
def test_the_pack_alone_refuses_a_program_without_its_guard(
    checkout: Checkout, bypass: Bypass
) -> None:
    # The guard also keeps tracebacks away, so that without it there may be one beside the refusal.
    checkout.edit(GUARD, "        install_guard()\n", "")
    checkout.edit(bypass.file, bypass.old, bypass.new)
    command = ("preview", "--stack", "local-serving", "--policy-pack", "policy/tokenworks-policy")
    done = checkout.pulumi(*command, check=False)
    assert done.returncode != 0
    assert_named(bypass, done.stdout + done.stderr)


def test_the_check_is_good_as_committed(checkout: Checkout) -> None:
    done = checkout.tokenworks("check")
    assert done.stdout.startswith("Good: ")


def ours(checkout: Checkout) -> list[dict[str, dict[str, str]]]:
    """Objects of ours, by what changes whenever they do; nodes send heartbeats and do not count."""
    return [
        one
        for one in checkout.objects()
        if one["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "tokenworks"
        and one["kind"] != "Node"
    ]
