"""One command at work on one checkout: its tools, its stacks, and where it prints."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tokenworks.files import write_whole
from tokenworks.local_cluster import LocalCluster
from tokenworks.operations.stacks import Stacks
from tokenworks.toolchain import Toolbox, ensure, showing
from tokenworks.toolchain.toolbox import ALL
from tokenworks.workspace import Workspace

SHELL_FILE = "env"


@dataclass(frozen=True, kw_only=True)
class Session:
    """Tools that are ready, Pulumi's stacks, and the console."""

    workspace: Workspace
    console: Console
    toolbox: Toolbox
    stacks: Stacks

    def cluster(self, environment: str) -> LocalCluster:
        """The local cluster of an environment."""
        return LocalCluster(environment, self.workspace.root)

    def say(self, text: str) -> None:
        """Print one line, as it is."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def open_session(workspace: Workspace, console: Console) -> Session:
    """Have every tool ready, and put them on this process's PATH."""
    with showing(console) as report:
        toolbox = ensure(ALL, report)
    path = _search_path(toolbox)
    os.environ["PATH"] = path
    stacks = Stacks(workspace, toolbox.pulumi_home, console)
    session = Session(workspace=workspace, console=console, toolbox=toolbox, stacks=stacks)
    _write_shell_file(session, toolbox)
    return session


def _search_path(toolbox: Toolbox) -> str:
    """The tools first, then the Python that has the project's packages, then what was there."""
    folders = [*toolbox.search_path, Path(sys.executable).parent]
    present = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*(str(f) for f in folders if str(f) not in present), *present])


def _write_shell_file(session: Session, toolbox: Toolbox) -> None:
    """Write what a shell sources so that plain ``pulumi`` and ``kubectl`` work here."""
    folders = [*toolbox.search_path, Path(sys.executable).parent]
    lines = [
        f'export {name}="{value}"' for name, value in sorted(session.stacks.variables().items())
    ]
    lines.append(f'export PATH="{os.pathsep.join(str(folder) for folder in folders)}:$PATH"')
    write_whole(session.workspace.machine / SHELL_FILE, "\n".join(lines) + "\n")
