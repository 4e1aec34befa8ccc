from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fluidattacks_core.sarif import SarifLog

from policy.rule import Severity, Verdict
from tests.check.findings import ENGINES, finding, judgement
from tokenworks.check.judge import not_judged
from tokenworks.check.sarif import as_sarif

DOUBT = not_judged("x.yaml", reason="is no UTF-8 text", remedy="give text", origin="x.yaml")


def run(*findings: Any, root: Path = Path(), judged: int = 2) -> dict[str, Any]:
    """Return the one run of a report that is valid by the schema's own model."""
    text = as_sarif(judgement(*findings, judged=judged), root)
    SarifLog.model_validate_json(text)
    (only,) = json.loads(text)["runs"]
    assert isinstance(only, dict)
    return only


def uri(origin: str, root: Path) -> dict[str, str]:
    (result,) = run(finding(origin=origin, line=3), root=root)["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert isinstance(artifact, dict)
    return artifact


def test_every_rule_is_listed_so_that_what_is_fixed_closes() -> None:
    driver = run()["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == [rule.name for rule in judgement().rules]
    for rule in driver["rules"]:
        assert rule["help"]["text"]
        assert rule["helpUri"].startswith("https://")
        assert 0 < float(rule["properties"]["security-severity"]) <= 10
        assert "security" in rule["properties"]["tags"]


def test_severities_are_those_that_github_shows() -> None:
    scores = {
        rule.name: float(described["properties"]["security-severity"])
        for rule, described in zip(judgement().rules, run()["tool"]["driver"]["rules"], strict=True)
    }
    for rule in judgement().rules:
        critical = rule.severity is Severity.CRITICAL
        assert critical == (scores[rule.name] > 9)
        assert (rule.severity is Severity.MEDIUM) == (scores[rule.name] < 7)


def test_a_result_names_rule_reason_and_remedy() -> None:
    found = run(finding(rule=ENGINES))
    (result,) = found["results"]
    assert found["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == ENGINES
    assert result["level"] == "error"
    assert result["message"]["text"] == (
        "kubernetes:core/v1:Pod n/p: spec.containers[0].image: a:1 has a tag, which can be moved, "
        "and no digest; append the digest."
    )


def test_a_warning_is_a_warning() -> None:
    (result,) = run(finding(verdict=Verdict.WARN))["results"]
    assert result["level"] == "warning"


def test_files_of_the_checkout_are_named_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    (root / "sub").mkdir(parents=True)
    for name in ("a b.yaml", "sub/c#d.yaml"):
        (root / name).write_text("")
    (tmp_path / "outside.yaml").write_text("")
    inside = {"uri": "a%20b.yaml", "uriBaseId": "%SRCROOT%"}
    assert uri(str(root / "a b.yaml"), root) == inside
    monkeypatch.chdir(root / "sub")
    assert uri("a b.yaml", root) == inside  # as the check names files of the checkout
    assert uri("c#d.yaml", root) == {"uri": "sub/c%23d.yaml", "uriBaseId": "%SRCROOT%"}
    assert uri(str(tmp_path / "outside.yaml"), root)["uri"].startswith("file:///")


def test_what_is_in_no_file_has_the_name_of_its_resource() -> None:
    for origin in ("", "standard input"):
        (result,) = run(finding(origin=origin))["results"]
        (location,) = result["locations"]
        assert "physicalLocation" not in location
        name = location["logicalLocations"][0]["fullyQualifiedName"]
        assert name == "kubernetes:core/v1:Pod n/p"


def test_a_finding_is_the_same_alert_after_its_lines_have_moved() -> None:
    def prints(line: int, **changes: Any) -> Any:
        (result,) = run(finding(origin="a.yaml", line=line, **changes))["results"]
        return result["partialFingerprints"]

    assert prints(3) == prints(30)
    assert prints(3) != prints(3, key="other")
    assert prints(3) != prints(3, subject="kubernetes:core/v1:Pod n/q")


def test_two_findings_at_one_key_are_two_alerts() -> None:
    first, second = run(finding(), finding(reason="is old"))["results"]
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_what_is_waived_is_suppressed_and_not_left_out() -> None:
    open_, waived = run(finding(), finding(key="k", waived="waived until then by me"))["results"]
    assert open_["suppressions"] == []
    (suppression,) = waived["suppressions"]
    assert suppression["justification"] == "waived until then by me"


@pytest.mark.parametrize(
    ("findings", "judged", "ran", "code"),
    [([], 2, True, 0), ([finding()], 2, True, 1), ([DOUBT], 2, False, 3), ([], 0, False, 3)],
)
def test_the_run_says_whether_it_could_tell(
    findings: list[Any], judged: int, ran: bool, code: int
) -> None:
    (invocation,) = run(*findings, judged=judged)["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (ran, code)


def test_a_name_that_is_no_text_does_no_harm() -> None:
    run(finding(subject="Pod \ud800\x00", origin="\udcff.yaml", key="\x1b"))
