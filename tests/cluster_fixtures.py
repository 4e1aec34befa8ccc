"""Fixtures for tests on the real programs, to be imported by a ``conftest.py``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tokenworks.local_cluster import LocalCluster
from tokenworks.toolchain import NODE_TOOLS, TOOLS, Toolbox, ensure, showing


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """Every tool but a real node's, from the user's cache: a machine's first run builds them."""
    with showing(Console(stderr=True)) as report:
        return ensure([tool.name for tool in TOOLS if tool.name not in NODE_TOOLS], report)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[LocalCluster]]:
    """A list to put clusters in; they are deleted when the test is over, however it ended."""
    made: list[LocalCluster] = []
    yield made
    for cluster in made:
        cluster.delete()


class Kubectl:
    """The toolbox's kubectl, talking to one cluster."""

    def __init__(self, toolbox: Toolbox, cluster: LocalCluster) -> None:
        self.command = [str(toolbox.path("kubectl")), "--kubeconfig", str(cluster.kubeconfig)]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What it prints; an error fails the test with what it said."""
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout.strip()

    def run(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """How it ended, whatever that was."""
        return subprocess.run(
            [*self.command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def wait(self, what: str, condition: str) -> None:
        """Wait until an object's field has a value, as ``kubectl wait --for`` writes it."""
        self("wait", what, f"--for={condition}", "--timeout=40s")
