"""Looking at the machines of an environment, preparing and verifying them, and locking them."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from tokenworks.environment.load import environment_names, load_environment
from tokenworks.errors import ConfigError, Problem
from tokenworks.files import private_folder, write_whole
from tokenworks.hosts.compatibility import lock_misfits
from tokenworks.hosts.inventory import Pool, inventory, ssh_config
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.lock_file import (
    Difference,
    differences,
    lock_text,
    make_lock,
    read_host_lock,
)
from tokenworks.hosts.operate import PoolReport
from tokenworks.hosts.progress import Tracker, shown
from tokenworks.hosts.request import read_request, request_path
from tokenworks.hosts.runner import PROJECT, Watch
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.platforms.hosts import host_pool
from tokenworks.workspace import Workspace

Operation = Callable[[Pool, Watch, threading.Event | None], PoolReport]


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One lock: where it lies, and what it has otherwise than its repositories give today."""

    file: Path
    differences: tuple[Difference, ...]


def pools_of(workspace: Workspace, environment: str) -> tuple[Pool, ...]:
    """Return the pools of machines of an environment.

    Raises:
        ConfigError: the environment is not good, or of another platform.
    """
    plan = plan_environment(workspace, environment)
    if plan.access is None:
        raise ConfigError([_other_platform(plan)])
    return tuple(host_pool(workspace, plan, pool) for pool in plan.pools)


def run_on_pools(
    pools: tuple[Pool, ...], operation: Operation, verb: str, console: Console
) -> tuple[PoolReport, ...]:
    """Run an operation on each pool and show how far it is; after a failure no further pool.

    Ctrl-C cancels: what was started ends, and what it left on hosts is looked at and told.
    """
    reports: list[PoolReport] = []
    with _cancellable(console) as cancelled:
        for pool in pools:
            tracker = Tracker(f"{verb} {pool.name}", console)
            with shown(tracker, console):
                reports.append(operation(pool, tracker, cancelled))
            if cancelled.is_set() or (verb == "prepare" and not reports[-1].good):
                break
    return tuple(reports)


def exit_code(reports: tuple[PoolReport, ...], pools: tuple[Pool, ...]) -> int:
    """0 where all is well, 1 where something is wrong, 3 where some host could not be told."""
    hosts = [host for report in reports for host in report.hosts]
    if any(host.told and not host.outcome.good for host in hosts):
        return 1
    reached = len(reports) == len(pools) and all(report.good for report in reports)
    return 0 if reached else 3


def by_hand(workspace: Workspace, environment: str, playbook: str) -> str:
    """Write inventory and SSH configuration of each pool, and return the commands that use them."""
    lines = [f"cd {shlex.quote(str(PROJECT))}"]
    for pool in pools_of(workspace, environment):
        folder = workspace.machine / environment / "hosts" / pool.name
        private_folder(workspace.machine)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "hosts.json", json.dumps(inventory(pool, pool.hosts), indent=2))
        known_hosts = folder / "known_hosts"
        write_whole(known_hosts, pool.access.known_hosts)
        write_whole(folder / "ssh_config", ssh_config(pool.access, pool.hosts, known_hosts))
        arguments = shlex.quote(f"-F {folder / 'ssh_config'}")
        lines.append(
            f"ANSIBLE_SSH_COMMON_ARGS={arguments} ansible-playbook "
            f"-i {shlex.quote(str(folder / 'hosts.json'))} {playbook}"
        )
    return "\n".join(lines)


def lock_hosts(workspace: Workspace, what: str, *, verify: bool) -> tuple[Locked, ...]:
    """Resolve the locks that a request file or an environment's pools ask for.

    Each is written beside its request's folder, unless it is only to be verified.

    Raises:
        ConfigError: with every package that cannot be locked, or that does not go together.
        OperationError: a repository cannot be read or its signature is not good.
    """
    done = []
    for request in _requests(workspace, what):
        lock = make_lock(read_request(request), request.parents[1] / "keys")
        _refuse_misfits(lock, request)
        file = request.parents[1] / request.name
        before = read_host_lock(file) if file.is_file() else None
        if verify and before is None:
            reason, remedy = "does not exist", f"run `tokenworks lock hosts {what}`"
            raise ConfigError([Problem(key="", reason=reason, remedy=remedy, file=file)])
        found = tuple(differences(before, lock)) if before else ()
        if not verify:
            write_whole(file, lock_text(lock))
        done.append(Locked(file=file, differences=found))
    return tuple(done)


def _requests(workspace: Workspace, what: str) -> list[Path]:
    if Path(what).suffix in (".yaml", ".yml"):
        return [Path(what).resolve()]
    if what not in environment_names(workspace.stacks):
        reason = "is neither a file nor an environment"
        remedy = "name a file in stacks/hosts/requests/ or an environment"
        raise ConfigError([Problem(key="", given=what, reason=reason, remedy=remedy)])
    pools = load_environment(what, workspace.stacks).environment.node_pools
    names = dict.fromkeys(pool.host_lock for pool in pools if pool.host_lock)
    if not names:
        reason, remedy = "names no host lock", "name one in a node pool of platform hosts"
        raise ConfigError([Problem(key="node_pools", given=what, reason=reason, remedy=remedy)])
    return [request_path(workspace.stacks, name) for name in names]


def _refuse_misfits(lock: HostLock, request: Path) -> None:
    problems = [
        Problem(key="", given=one.given, reason=one.reason, remedy=one.remedy, file=request)
        for one in lock_misfits(lock)
    ]
    if problems:
        raise ConfigError(problems)


def _other_platform(plan: Plan) -> Problem:
    return Problem(
        key="platform",
        given=plan.platform,
        reason="has no machines to log in to",
        remedy="use an environment of platform hosts, such as example-hosts",
    )


@contextlib.contextmanager
def _cancellable(console: Console) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C interrupts as ever."""
    cancelled = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def cancel(_number: int, _frame: FrameType | None) -> None:
        cancelled.set()
        signal.signal(signal.SIGINT, before)
        console.print("cancelling; what was begun on hosts is looked at once more")

    signal.signal(signal.SIGINT, cancel)
    try:
        yield cancelled
    finally:
        signal.signal(signal.SIGINT, before)
