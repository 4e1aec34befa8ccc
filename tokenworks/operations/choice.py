"""Which environment is brought up where nobody named one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenworks.files import write_whole
from tokenworks.local_node.preflight import Lack
from tokenworks.operations.node import lacks, local_node, tried_lacks
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


def likely(workspace: Workspace) -> Choice:
    """The choice as far as it can be seen; nothing is made, tried for long or written down."""
    return _running(workspace) or choose(lacks(workspace, REAL))


def chosen(workspace: Workspace, say: Callable[[str], None]) -> Choice:
    """The choice for this machine; it is written down for the commands that follow.

    The kernel is tried before that, so that what was chosen does not turn out impossible.
    """
    choice = _running(workspace) or choose(tried_lacks(workspace, REAL, say))
    write_whole(workspace.chosen, f"{choice.environment}\n")
    return choice


def _running(workspace: Workspace) -> Choice | None:
    """What runs goes on, whatever the machine may lack to start it."""
    if local_node(workspace, REAL).pid() is None:
        return None
    return Choice(environment=REAL, because="its node runs on this machine")
