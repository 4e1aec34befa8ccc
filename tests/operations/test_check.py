"""The pull-request check over environments, files that nobody here wrote, and its waivers."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tokenworks.check.judge import Judgement, Outcome, judge
from tokenworks.errors import UndecidableError
from tokenworks.operations import check
from tokenworks.operations.check import Asked, check_files, check_workspace, run_check
from tokenworks.operations.session import Session
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
TODAY = datetime.date(2026, 5, 4)
IMAGES = "images-are-pinned-by-digest"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: n}
spec:
  containers:
    - name: a
      image: nginx:1.29
"""
PUBLIC = f"""\
apiVersion: v1
kind: Service
metadata: {{name: llm}}
spec:
  type: LoadBalancer
  selector: {{app: vllm}}
  ports: [{{port: 443, targetPort: 8000}}]
---
{POD}"""


def rules(judgement: Judgement) -> set[str]:
    return {finding.rule for finding in judgement.findings}


def files(*paths: Path, waivers: Path | None = None) -> Judgement:
    return check_files(
        [str(path) for path in paths], [], Workspace(waivers or Path("/none")), TODAY
    )


def waive(root: Path, **changes: Any) -> None:
    entry = {
        "rule": IMAGES,
        "resource": {"type": "kubernetes:core/v1:Pod", "name": "n/p"},
        "reason": "Because.",
        "owner": "me",
        "issue": "https://example.com/1",
        "expires": "2026-06-01",
        **changes,
    }
    (root / "policy").mkdir(exist_ok=True)
    (root / "policy" / "waivers.yaml").write_text(json.dumps({"waivers": [entry]}))


@pytest.fixture
def copy(tmp_path: Path) -> Workspace:
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    return Workspace(tmp_path)


def edit(workspace: Workspace, old: str, new: str) -> None:
    file = workspace.stacks / "local.yaml"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new))


def test_findings_in_manifests_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "all.yml").write_text(PUBLIC)
    judgement = files(tmp_path)
    assert judgement.outcome is Outcome.REFUSED
    assert judgement.judged == 2
    lines = {finding.key: finding.line for finding in judgement.findings}
    assert lines["spec.type"] == 5
    assert lines["spec.containers[0].image"] == 15


def test_manifests_of_several_files_are_deployed_together(tmp_path: Path) -> None:
    pod, service = tmp_path / "pod.yaml", tmp_path / "service.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: b}}\nspec: "
        '{containers: [{name: x, image: "vllm/vllm-openai:v1"}]}\n'
    )
    service.write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: "
        "{type: NodePort, selector: {a: b}, ports: [{port: 80}]}\n"
    )
    together = {str(one) for one in files(pod, service).findings if one.key == "spec.type"}
    assert together


def test_a_file_that_cannot_be_read_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    judgement = files(tmp_path)
    assert judgement.outcome is Outcome.COULD_NOT_TELL
    assert rules(judgement) == {"everything-is-judged"}


def test_a_file_that_cannot_be_read_hides_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "pod.yaml").write_text(POD)
    judgement = files(tmp_path)
    assert judgement.outcome is Outcome.REFUSED
    assert {"everything-is-judged", IMAGES} <= rules(judgement)


def test_a_list_of_cloud_resources_is_judged_beside_manifests(tmp_path: Path) -> None:
    rule = {"from_port": 7000, "to_port": 9000, "ip_protocol": "tcp", "cidr_ipv4": "0.0.0.0/0"}
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"  # noqa: S105
    listed = tmp_path / "resources.json"
    listed.write_text(json.dumps([{"type": token, "name": "in", "properties": rule}], indent=1))
    (tmp_path / "pod.yaml").write_text(POD)
    manifests = [str(tmp_path / "pod.yaml")]
    judgement = check_files(manifests, [str(listed)], Workspace(tmp_path), TODAY)
    assert judgement.judged == 2
    found = {(one.rule, one.key, one.line) for one in judgement.findings}
    assert ("engine-ports-admit-only-private-sources", "cidrIpv4") in {one[:2] for one in found}
    assert not [one for one in judgement.findings if one.origin == str(listed) and not one.line]


def test_a_waiver_lets_a_finding_through_and_shows_it(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    others = [one for one in files(tmp_path / "pod.yaml").findings if one.rule != IMAGES]
    waive(tmp_path)
    judgement = files(tmp_path / "pod.yaml", waivers=tmp_path)
    (waived,) = [one for one in judgement.findings if one.waived]
    assert waived.rule == IMAGES
    assert [one for one in judgement.findings if not one.waived] == others


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"expires": "2026-05-03"}, "is past"),
        ({"expires": "2027-05-03"}, "is more than 90 days ahead"),
        ({"resource": {"type": "*", "name": "n/p"}}, "has a wildcard"),
        ({"key": "spec.other"}, "matches nothing"),
        ({"owner": ""}, "is missing"),
    ],
)
def test_a_waiver_that_is_not_in_order_refuses(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    waive(tmp_path, **changes)
    judgement = files(tmp_path / "pod.yaml", waivers=tmp_path)
    assert judgement.outcome is Outcome.REFUSED
    assert not [one for one in judgement.findings if one.waived]
    (about,) = [one for one in judgement.findings if one.rule == "waivers-are-exact-and-expire"]
    assert says in str(about)


def test_every_environment_of_the_checkout_is_good() -> None:
    judgement = check_workspace(Workspace(ROOT), [], TODAY)
    assert [str(one) for one in judgement.findings if not one.waived] == []
    assert judgement.outcome is Outcome.GOOD
    assert judgement.judged > 40


def test_a_finding_in_an_environment_names_the_line_of_its_model(
    copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = copy.stacks / "images.lock"
    assert wanted.is_file()
    from tokenworks.operations import record

    real = record.record_environment

    def loosened(*given: Any) -> Any:
        recordings = real(*given)
        for recording in recordings.values():
            for one in recording.resources:
                if one.type.endswith(":Deployment") and one.name.startswith("qwen"):
                    spec: Any = one.inputs["spec"]
                    spec["template"]["spec"]["containers"][0]["image"] = "x:latest"
        return recordings

    monkeypatch.setattr(record, "record_environment", loosened)
    found = check_workspace(copy, ["local"], TODAY).findings
    (image,) = [one for one in found if one.rule == IMAGES]
    text = (copy.stacks / "local.yaml").read_text("utf-8").splitlines()
    assert image.origin == "stacks/local.yaml"
    assert image.line is not None
    assert text[image.line - 1] == "  - name: qwen3-32b"


def test_all_programs_of_an_environment_are_judged_together(
    copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def noted(resources: Any, *rest: Any) -> Judgement:
        listed = list(resources)
        seen.append({one.urn.split(":")[2] for one in listed if one.urn})
        return judge(listed, *rest)

    monkeypatch.setattr(check, "judge", noted)
    check_workspace(copy, ["local"], TODAY)
    assert {"local-cluster", "local-serving"} in seen


def test_an_environment_that_is_wrong_is_refused_at_its_line_and_hides_no_other(
    copy: Workspace,
) -> None:
    shutil.copy(copy.stacks / "local.yaml", copy.stacks / "other.yaml")
    edit(copy, "node_pool: l4", "node_pool: none")
    judgement = check_workspace(copy, [], TODAY)
    assert judgement.outcome is Outcome.REFUSED
    refused = [one for one in judgement.findings if one.subject == "environment local"]
    assert {one.origin for one in refused} == {"stacks/local.yaml"}
    assert all(one.line for one in refused)
    assert judgement.judged > 40


def test_a_program_that_does_not_run_is_no_pass(
    copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise KeyError("models")

    monkeypatch.setattr("tokenworks.operations.record.record_environment", broken)
    judgement = check_workspace(copy, ["local"], TODAY)
    assert judgement.outcome is Outcome.COULD_NOT_TELL
    assert "cannot be run without a cloud: KeyError('models')" in str(judgement.findings)


def test_a_checkout_without_environments_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    judgement = check_workspace(Workspace(tmp_path), [], TODAY)
    assert judgement.outcome is Outcome.COULD_NOT_TELL


def test_an_unpinned_package_is_found_beside_the_environments(copy: Workspace) -> None:
    (copy.root / "requirements.lock").write_text("pulumi>=3\n")
    judgement = check_workspace(copy, ["local"], TODAY)
    assert judgement.outcome is Outcome.REFUSED
    found = {(one.origin, one.line) for one in judgement.findings}
    assert ("requirements.lock", 1) in found


def test_a_waiver_that_no_environment_needs_refuses(copy: Workspace) -> None:
    waive(copy.root)
    assert check_workspace(copy, [], TODAY).outcome is Outcome.REFUSED
    assert check_workspace(copy, ["local"], TODAY).outcome is Outcome.GOOD


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Asked(environments=("local",), manifests=("a.yaml",)), "files are judged by themselves"),
        (Asked(deployed=True, lists=("a.json",)), "files are judged by themselves"),
        (Asked(deployed=True), "--deployed needs an environment"),
        (Asked(manifests=("-", "-")), "standard input can be read once"),
        (Asked(), ""),
        (Asked(manifests=("a", "-"), lists=("b",)), ""),
        (Asked(deployed=True, environments=("local",)), ""),
    ],
)
def test_what_cannot_be_asked_together_is_said(asked: Asked, says: str) -> None:
    assert (asked.problem or "").startswith(says)
    assert bool(asked.problem) == bool(says)


def test_a_check_that_fails_itself_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise RuntimeError("oh")

    def session() -> Session:
        raise AssertionError

    monkeypatch.setattr(check, "read_manifests", broken)
    with pytest.raises(UndecidableError, match=r"the check failed \(RuntimeError: oh\)"):
        run_check(Asked(manifests=("a",)), Workspace(tmp_path), session)
