"""What is made of Pulumi's own reports."""

from __future__ import annotations

from pulumi.automation import OpType

from tokenworks.operations.stacks import Changes, count_changes, diagnostics

REPORT = """ code: 255
 stdout: Updating (local-serving):
@ updating....
 +  kubernetes:core/v1:Service public creating (0s)
Diagnostics:
  kubernetes:core/v1:Service (public):
    error: it is refused

Policies:
    tokenworks@v0.1.0 (local: policy)
        - [mandatory]  only-the-gateway-has-a-load-balancer  (kubernetes:core/v1:Service: public)
          use ClusterIP

Resources:
    + 3 created

Duration: 1s
"""


def test_a_replacement_counts_once() -> None:
    counts = {
        OpType.CREATE: 2,
        OpType.REPLACE: 1,
        OpType.CREATE_REPLACEMENT: 1,
        OpType.DELETE_REPLACED: 1,
        OpType.SAME: 7,
    }
    assert count_changes(counts) == Changes(create=2, replace=1, same=7)


def test_nothing_but_unchanged_resources_is_no_change() -> None:
    assert not Changes(same=9).any
    assert Changes(delete=1, same=9).any


def test_a_failure_shows_diagnostics_and_policies_without_progress_and_counts() -> None:
    text = diagnostics(REPORT)
    assert text.startswith("  kubernetes:core/v1:Service (public):")
    assert "error: it is refused" in text
    assert "only-the-gateway-has-a-load-balancer" in text
    assert "use ClusterIP" in text
    assert "created" not in text
    assert "updating" not in text


def test_policies_are_shown_wherever_they_stand() -> None:
    before, rest = REPORT.split("Diagnostics:")
    diagnosed, policies = rest.split("Policies:")
    judged, counts = policies.split("Resources:")
    moved = f"{before}Policies:{judged}Diagnostics:{diagnosed}Resources:{counts}"
    assert diagnostics(moved) == diagnostics(REPORT)


def test_a_failure_without_diagnostics_is_shown_whole() -> None:
    assert diagnostics("error: no stack") == "error: no stack"
