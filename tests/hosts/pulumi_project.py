"""A Pulumi project whose hosts are prepared by the real provider, under the real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from tokenworks.hosts.inventory import Pool
from tokenworks.toolchain import Toolbox

REPOSITORY: Final = Path(__file__).parents[2]
PASSPHRASE: Final = "hunter2-of-the-provider"  # noqa: S105  made up, and must not be seen again
PROGRAM: Final = """\
import json
from pathlib import Path

import pulumi
from pydantic import TypeAdapter

from tokenworks.components.host_pool import PreparedHosts
from tokenworks.hosts.inventory import Pool

pools = TypeAdapter(list[Pool]).validate_python(json.loads(Path("pools.json").read_text()))
for pool in pools:
    made = PreparedHosts(pool.name, pool)
    pulumi.export("hosts" if pool is pools[0] else f"hosts_{pool.name}", made.hosts)
"""


@dataclass(frozen=True)
class Project:
    """A Pulumi project in a folder of its own, with the package and its playbooks beside it."""

    folder: Path
    environment: dict[str, str]

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def command(self, *arguments: str) -> list[str]:
        return ["pulumi", *arguments, "--stack", "test", "--non-interactive"]

    def up(self) -> subprocess.CompletedProcess[str]:
        return self.pulumi("up", "--yes", "--skip-preview", "--color", "never")

    def output(self, name: str) -> Any:
        return json.loads(self.pulumi("stack", "output", name, "--json").stdout)

    def state(self) -> dict[str, Any]:
        """Outputs of the pool as the state has them; a refresh runs no program."""
        found = json.loads(self.pulumi("stack", "export").stdout)["deployment"]["resources"]
        outputs: dict[str, Any] = next(r for r in found if r["urn"].endswith("::h100"))["outputs"]
        return outputs

    def ask(self, *wanted: Pool) -> None:
        text = json.dumps(TypeAdapter(list[Pool]).dump_python(list(wanted), mode="json"))
        (self.folder / "pools.json").write_text(text)

    def refresh(self) -> subprocess.CompletedProcess[str]:
        return self.pulumi("refresh", "--yes", "--skip-preview", "--color", "never")

    def begin(self) -> subprocess.Popen[bytes]:
        """An update that goes on, in a process group of its own."""
        return subprocess.Popen(
            self.command("up", "--yes", "--skip-preview"),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def playbook(self, name: str, text: str) -> None:
        (self.folder / "ansible" / f"{name}.yml").write_text(text)

    def processes(self) -> list[str]:
        """Command lines of processes that run Ansible on this project."""
        wanted = f"ANSIBLE_CONFIG={self.folder / 'ansible' / 'ansible.cfg'}".encode()
        lines = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (place / "environ").read_bytes().split(b"\0"):
                    lines.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return lines


def project(toolbox: Toolbox, folder: Path) -> Project:
    """A project without playbooks, whose stack is there."""
    place, state = folder / "project", folder / "state"
    place.mkdir()
    state.mkdir()
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tokenworks", place / "tokenworks", ignore=skipped)
    shutil.copytree(REPOSITORY / "templates", place / "templates", ignore=skipped)
    (place / "Pulumi.yaml").write_text("name: hosts\nruntime: python\n")
    (place / "__main__.py").write_text(PROGRAM)
    (place / "tmp").mkdir()
    path = [*toolbox.search_path, Path(sys.executable).parent, os.environ["PATH"]]
    environment = {
        "HOME": str(folder),
        "PATH": os.pathsep.join(map(str, path)),
        "PYTHONPATH": str(place),
        "TMPDIR": str(place / "tmp"),
        "PULUMI_HOME": str(toolbox.pulumi_home),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    made = Project(place, environment)
    created = made.pulumi("stack", "init")
    assert created.returncode == 0, created.stdout
    return made


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)
