"""Which environment is brought up where nobody named one."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.files import write_whole
from tokenworks.local_node.preflight import Lack
from tokenworks.operations.node import lacks
from tokenworks.workspace import Workspace

REAL = "onenode"
SIMULATED = "local"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An environment, and why it was chosen."""

    environment: str
    because: str


def choose(found: tuple[Lack, ...]) -> Choice:
    """The environment with a real node where nothing is lacking, else the simulated one."""
    if not found:
        return Choice(environment=REAL, because="this machine can be a real node")
    missing = "; ".join(f"{lack.what} ({lack.remedy})" for lack in found)
    return Choice(environment=SIMULATED, because=f"this machine cannot be a real node: {missing}")


def chosen(workspace: Workspace) -> Choice:
    """The choice for this machine; it is written down for the commands that follow."""
    choice = choose(lacks(workspace))
    write_whole(workspace.chosen, f"{choice.environment}\n")
    return choice
