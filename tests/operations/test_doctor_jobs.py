"""What the doctor says of Jobs that fill volumes."""

from __future__ import annotations

from typing import Any

import pytest

from tokenworks.operations.doctor import _job


@pytest.mark.parametrize(
    ("status", "well", "seen", "remedy"),
    [
        ({"succeeded": 1, "failed": 2}, True, "done", ""),
        ({"active": 1}, None, "is not done yet", "says how far it is"),
        ({}, None, "is not done yet", "says how far it is"),
        (
            {"conditions": [{"type": "Failed", "status": "True", "message": "exit code 3"}]},
            False,
            "failed: exit code 3",
            "says why",
        ),
        (
            {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            False,
            "failed: DeadlineExceeded",
            "says why",
        ),
    ],
)
def test_a_job_is_well_when_it_is_done_and_unknown_until_then(
    status: dict[str, Any], well: bool | None, seen: str, remedy: str
) -> None:
    metadata = {"name": "m-populate-0123456789", "namespace": "engines"}
    found = _job({"metadata": metadata, "status": status})
    assert (found.subject, found.well, found.seen) == ("job m-populate-0123456789", well, seen)
    assert found.remedy.endswith(remedy)
    if not well:
        assert "kubectl --namespace engines logs job/m-populate-0123456789" in found.remedy
