"""What an AWS environment costs those who have none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.components.aws.graph import ROOT

RECORD = """
import sys
from pathlib import Path
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace
workspace = Workspace(Path({root!r}))
record_environment(workspace, plan_environment(workspace, {environment!r}))
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def loaded(environment: str) -> set[str]:
    """Packages that are loaded once an environment was recorded."""
    script = RECORD.format(root=str(ROOT), environment=environment)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("environment", ["local", "example-hosts"])
def test_other_platforms_load_nothing_of_aws(environment: str) -> None:
    assert not {"pulumi_aws", "boto3", "botocore"} & loaded(environment)


def test_looking_at_an_aws_environment_loads_no_client_that_could_call_it() -> None:
    packages = loaded("example-aws")
    assert "pulumi_aws" in packages
    assert not {"boto3", "botocore"} & packages
