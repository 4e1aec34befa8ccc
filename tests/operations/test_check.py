"""The pull-request check over files that nobody here wrote, and over the checkout itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tokenworks.check.judge import Judgement, Outcome
from tokenworks.errors import ConfigError
from tokenworks.operations.check import check_manifests, check_resources, check_workspace
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = """\
apiVersion: v1
kind: Service
metadata: {name: llm}
spec:
  type: LoadBalancer
  selector: {app: vllm}
  ports: [{port: 443, targetPort: 8000}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers: [{name: engine, image: "vllm/vllm-openai:latest"}]
"""


def rules(judgement: Judgement) -> set[str]:
    return {finding.rule for finding in judgement.findings}


def test_manifests_below_a_folder_are_judged_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "charts" / "deep").mkdir(parents=True)
    (tmp_path / "charts" / "deep" / "all.yml").write_text(PUBLIC)
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    judgement = check_manifests(tmp_path)
    assert judgement.outcome is Outcome.REFUSED
    assert rules(judgement) == {"engine-ports-are-never-public", "images-are-pinned-by-digest"}
    assert judgement.judged == 2


def test_a_single_manifest_is_judged(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(PUBLIC)
    assert check_manifests(file).judged == 2


def test_a_folder_without_manifests_is_no_pass(tmp_path: Path) -> None:
    judgement = check_manifests(tmp_path)
    assert judgement.outcome is Outcome.COULD_NOT_TELL
    assert judgement.outcome.exit_code == 3


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    with pytest.raises(ConfigError, match=r"broken.yaml: cannot be read"):
        check_manifests(tmp_path)


def test_a_list_of_cloud_resources_is_judged(tmp_path: Path) -> None:
    rule = {"from_port": 7000, "to_port": 9000, "ip_protocol": "tcp", "cidr_ipv4": "0.0.0.0/0"}
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"  # noqa: S105
    listed = [{"type": token, "name": "in", "properties": rule}]
    file = tmp_path / "resources.json"
    file.write_text(json.dumps(listed))
    assert rules(check_resources(file)) == {"engine-ports-are-never-public"}


def test_a_list_that_is_not_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "resources.json"
    file.write_text("type: x")
    with pytest.raises(ConfigError, match=r"resources.json: cannot be read"):
        check_resources(file)


def test_every_environment_of_the_checkout_is_good() -> None:
    judgement = check_workspace(Workspace(ROOT), [])
    assert judgement.outcome is Outcome.GOOD
    assert judgement.judged > 40


def test_an_unpinned_package_is_found_beside_the_environments(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    (tmp_path / "requirements.lock").write_text("pulumi>=3\n")
    judgement = check_workspace(Workspace(tmp_path), ["local"])
    assert judgement.outcome is Outcome.REFUSED
    assert rules(judgement) == {"every-version-is-exact"}
