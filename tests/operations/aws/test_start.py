"""What other platforms pay for AWS: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("boto3", "botocore", "pulumi", "pulumi_aws")


@pytest.mark.parametrize(
    "module",
    [
        "tokenworks.cli",
        "tokenworks.environment.load",
        "tokenworks.operations.backends",
    ],
)
def test_no_client_of_a_cloud_is_imported_before_it_is_needed(module: str) -> None:
    script = f"import sys, {module}; print(*(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["up", "down", "doctor", "preview", "stacks", "session"])
def test_operations_of_every_platform_import_no_client_of_aws(module: str) -> None:
    script = (
        f"import sys, tokenworks.operations.{module}; "
        "print(*({'boto3', 'botocore', 'pulumi_aws'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
