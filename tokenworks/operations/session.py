"""One command at work on one checkout: its tools, its stacks, and where it prints."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from tokenworks.environment.load import load_environment
from tokenworks.files import private_folder, write_whole
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_node import LocalNode
from tokenworks.operations.backends import Backend, backend_of, local_backend, prepare_local
from tokenworks.operations.stacks import Stacks
from tokenworks.toolchain import ENVIRONMENT_TOOLS, Toolbox, ensure, showing
from tokenworks.workspace import Workspace

_NOT_INHERITED: Final = (
    "PULUMI_CONFIG_PASSPHRASE",
    "PULUMI_K8S_DELETE_UNREACHABLE",
    "PULUMI_K8S_ENABLE_PATCH_FORCE",
)
"""Variables that would decide over us: a passphrase of another project, even an empty one, goes
before the file with ours; the others drop from the state what cannot be reached, and take over what
is somebody else's."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """Tools that are ready, Pulumi's stacks, and the console."""

    workspace: Workspace
    console: Console
    toolbox: Toolbox
    stacks: Stacks

    def cluster(self, environment: str, *, has_real_node: bool = False) -> LocalCluster:
        """The local cluster of an environment."""
        root = self.workspace.root
        proxy = LocalNode(environment, root).proxy if has_real_node else None
        return LocalCluster(environment, root, node_proxy=proxy)

    def say(self, text: str) -> None:
        """Print one line, as it is."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def session_of(workspace: Workspace, environment: str | None, console: Console) -> Session:
    """A session for one environment, where its states are; for none, in this checkout.

    On AWS the account is asked who is calling before anything else.
    """
    if environment is None:
        return open_session(workspace, console, local_backend(workspace))
    loaded = load_environment(environment, workspace.stacks).environment
    return open_session(workspace, console, backend_of(workspace, environment, loaded))


def open_session(workspace: Workspace, console: Console, backend: Backend) -> Session:
    """Have every tool ready, and put them on this process's PATH."""
    prepare_local(workspace)
    with showing(console) as report:
        toolbox = ensure(ENVIRONMENT_TOOLS, report)
    for name in _NOT_INHERITED:
        os.environ.pop(name, None)
    os.environ["PATH"] = os.pathsep.join([_folders(toolbox), os.environ.get("PATH", os.defpath)])
    stacks = Stacks(workspace, toolbox.pulumi_home, console, backend)
    session = Session(workspace=workspace, console=console, toolbox=toolbox, stacks=stacks)
    _write_shell_file(session, toolbox)
    return session


def _folders(toolbox: Toolbox) -> str:
    """The tools, then the Python that has the project's packages, in the form of PATH."""
    return os.pathsep.join(map(str, [*toolbox.search_path, Path(sys.executable).parent]))


def _write_shell_file(session: Session, toolbox: Toolbox) -> None:
    """Write what a shell sources so that plain ``pulumi`` and ``kubectl`` work here."""
    variables = sorted(session.stacks.variables().items())
    lines = [f"unset {' '.join(_NOT_INHERITED)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables]
    lines.append(f'export PATH={shlex.quote(_folders(toolbox))}:"$PATH"')
    file = session.stacks.backend.shell_file
    write_whole(private_folder(file.parent) / file.name, "\n".join(lines) + "\n")
