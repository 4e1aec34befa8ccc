"""A pull request that breaks a rule, from the branch to the alert, and the commit that fixes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.local.checkout import copy_project, git

SERVICE = "tokenworks/components/model_server.py"
POD = "tokenworks/components/engine_pod.py"

ENVIRONMENT = "stacks/local.yaml"
MODEL = "  - name: qwen3-32b"


@dataclass(frozen=True)
class Change:
    """What a branch changes in one file, and what the check must say of it."""

    file: str
    old: str
    new: str
    rule: str
    resource: str
    reason: str
    place: str  # the line of the environment that the finding stands at


CHANGES = {
    "an engine behind a load balancer": Change(
        file=SERVICE,
        old='"type": "ClusterIP"',
        new='"type": "LoadBalancer"',
        rule="only-the-gateway-has-a-load-balancer",
        resource="kubernetes:core/v1:Service qwen3-32b-service",
        reason="would publish an engine",
        place=MODEL,
    ),
    "an engine on a tag": Change(
        file=POD,
        old='"name": "engine",\n        "image": model.image.reference',
        new='"name": "engine",\n        "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"',
        rule="images-are-pinned-by-digest",
        resource="kubernetes:apps/v1:Deployment qwen3-32b-deployment",
        reason="release:1.2.1 has a tag, which can be moved, and no digest",
        place=MODEL,
    ),
}


@pytest.fixture(scope="module")
def pull_request(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pull-request")
    copy_project(path)
    return path


@pytest.fixture
def branch(pull_request: Path) -> Path:
    git("checkout", "--quiet", "--force", "-B", "change", "main", cwd=pull_request)
    return pull_request


def commit(path: Path, file: str, edit: Callable[[str], str]) -> None:
    text = (path / file).read_text("utf-8")
    changed = edit(text)
    assert changed != text, f"{file} is not what the change expects"
    (path / file).write_text(changed)
    git("commit", "--quiet", "--all", "--message", "change", cwd=path)


def check(path: Path) -> tuple[int, str, list[dict[str, Any]]]:
    """Run the check as CI does; return its exit code, text and SARIF results."""
    sarif = path.parent / f"{path.name}.sarif"
    command = [sys.executable, "-m", "tokenworks.cli", "check", "--sarif", str(sarif)]
    done = subprocess.run(
        command, cwd=path, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stdout + done.stderr
    (run,) = json.loads(sarif.read_text("utf-8"))["runs"]
    sarif.unlink()
    return done.returncode, done.stdout, run["results"]


def test_main_is_good(branch: Path) -> None:
    code, text, results = check(branch)
    assert (code, results) == (0, []), text
    assert text.startswith("Good: ")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_branch_that_breaks_a_rule_is_refused_until_it_is_fixed(
    branch: Path, change: Change
) -> None:
    commit(branch, change.file, lambda text: text.replace(change.old, change.new))
    code, text, results = check(branch)
    assert code == 1
    assert change.resource in text
    assert change.reason in text
    (place,) = [
        place
        for one in results
        if one["ruleId"] == change.rule and change.resource in one["message"]["text"]
        for place in [one["locations"][0]["physicalLocation"]]
        if place["artifactLocation"]["uri"] == ENVIRONMENT
    ]
    lines = (branch / ENVIRONMENT).read_text("utf-8").splitlines()
    assert lines[place["region"]["startLine"] - 1] == change.place

    commit(branch, change.file, lambda text: text.replace(change.new, change.old))
    code, _, results = check(branch)
    assert (code, results) == (0, [])


def test_a_loosened_lock_is_refused(branch: Path) -> None:
    digest = "requirements.lock"
    commit(branch, digest, lambda text: text.replace("pulumi==3.272.0", "pulumi>=3.272.0"))
    code, text, _ = check(branch)
    assert code == 1
    assert "requirements.lock:" in text


def test_a_waiver_that_nobody_needs_is_refused(branch: Path) -> None:
    waiver = {
        "rule": "images-are-pinned-by-digest",
        "resource": {"type": "kubernetes:core/v1:Pod", "name": "gone"},
        "reason": "Because.",
        "owner": "me",
        "issue": "https://example.com/1",
        "expires": "2999-01-01",
    }
    commit(branch, "policy/waivers.yaml", lambda _: json.dumps({"waivers": [waiver]}))
    code, text, results = check(branch)
    assert code == 1
    assert "is more than 90 days ahead" in text
    (alert,) = results
    place = alert["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "policy/waivers.yaml"


def test_an_environment_that_is_wrong_is_refused_at_its_line(branch: Path) -> None:
    commit(branch, ENVIRONMENT, lambda text: text.replace("node_pool: h100", "node_pool: none"))
    code, text, _ = check(branch)
    assert code == 1
    assert f"{ENVIRONMENT}:" in text


def test_the_workflows_for_ci_are_pinned_and_call_the_check_as_it_is(pull_request: Path) -> None:
    workflow = (pull_request / "docs/ci/github-actions.yaml").read_text("utf-8")
    uses = re.findall(r"uses: (\S+)", workflow)
    assert len(uses) == 3
    assert all(re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", one) for one in uses)
    jobs = yaml.safe_load(workflow)["jobs"]
    gitlab = yaml.safe_load((pull_request / "docs/ci/gitlab.yaml").read_text("utf-8"))
    runs = [step["run"] for step in jobs["check"]["steps"] if "run" in step]
    assert runs == gitlab["policies"]["script"]
    assert runs[-1].startswith(".venv/bin/tokenworks check --sarif ")
