"""From the files of a checkout to the plan of one environment."""

from __future__ import annotations

from tokenworks.environment.load import LoadedEnvironment, load_environment
from tokenworks.environment.lock import Lock, read_lock, read_stand_ins
from tokenworks.hosts.beside import read_host_files
from tokenworks.hosts.sources import CHECKOUT, sources_digest
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Plan
from tokenworks.workspace import Workspace


def plan_environment(workspace: Workspace, name: str) -> Plan:
    """Read an environment with everything it names, and decide everything about it.

    Raises:
        ConfigError: with every problem in the files, or every reason against what they ask.
    """
    loaded, lock = load_environment(name, workspace.stacks), read_lock(workspace.stacks)
    if loaded.environment.has_real_node:
        local = read_stand_ins(workspace.stand_ins(name))
        lock = lock.model_copy(update={"stand_ins": local})
    return resolve_loaded(loaded, lock)


def resolve_loaded(loaded: LoadedEnvironment, lock: Lock) -> Plan:
    """Read what the node pools name beside the environment, and decide everything."""
    digest = sources_digest(CHECKOUT) if loaded.environment.platform == "aws" else ""
    return resolve(loaded, lock, read_host_files(loaded), digest)
