"""The real Pulumi in the home that was made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tokenworks.toolchain import Toolbox
from tokenworks.toolchain.catalogue import TOOL

pytestmark = pytest.mark.cluster

PROGRAM = """
import pulumi
import pulumi.dynamic
import pulumi_kubernetes


class Echo(pulumi.dynamic.ResourceProvider):
    def create(self, props):
        return pulumi.dynamic.CreateResult("echo", props)


class Said(pulumi.dynamic.Resource):
    text: pulumi.Output[str]

    def __init__(self, name, text):
        super().__init__(Echo(), name, {"text": text})


provider = pulumi_kubernetes.Provider("yaml", render_yaml_to_directory="rendered")
pulumi_kubernetes.core.v1.Namespace(
    "n", metadata={"name": "n"}, opts=pulumi.ResourceOptions(provider=provider)
)
pulumi.export("said", Said("said", "hello").text)
"""


class Pulumi:
    """The toolbox's Pulumi on a project with a file backend."""

    def __init__(self, toolbox: Toolbox, folder: Path) -> None:
        self._folder = folder
        (folder / "state").mkdir()
        (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)
        path = [*map(str, toolbox.search_path), str(Path(sys.executable).parent), os.defpath]
        self._command = str(toolbox.path("pulumi"))
        self._environ = {
            "PATH": os.pathsep.join(path),
            "HOME": str(folder),
            "PULUMI_HOME": str(toolbox.pulumi_home),
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "trial",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._command, *arguments, "--non-interactive"],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def pulumi(toolbox: Toolbox, tmp_path: Path) -> Pulumi:
    return Pulumi(toolbox, tmp_path)


def test_pulumi_lists_the_provider_as_an_installed_plugin(pulumi: Pulumi) -> None:
    (plugin,) = json.loads(pulumi("plugin", "ls", "--json"))
    tool = TOOL["pulumi-resource-kubernetes"]
    assert (plugin["name"], plugin["kind"]) == ("kubernetes", "resource")
    assert plugin["version"] == tool.version


def test_a_program_with_both_providers_runs_without_a_warning(
    pulumi: Pulumi, tmp_path: Path
) -> None:
    pulumi("stack", "init", "trial")
    said = pulumi("up", "--yes", "--skip-preview", "--stack", "trial")
    assert "warning" not in said.lower(), said
    assert pulumi("stack", "output", "said", "--stack", "trial").strip() == "hello"
    assert list((tmp_path / "rendered").rglob("*.yaml"))
