"""The dynamic provider of a pool of hosts: thin, so that its pickled form is a name.

Pulumi keeps a Python provider in its state as pickled code. This one is a class of an installed
module without anything of its own, so that only its name is pickled, and the code that runs is
always that of the checkout.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pulumi.dynamic import (
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)
from pydantic import TypeAdapter
from rich.console import Console

from tokenworks.errors import OperationError
from tokenworks.hosts.inventory import Pool, digest
from tokenworks.hosts.operate import HostReport, PoolReport, prepare_pool, verify_pool
from tokenworks.hosts.progress import Tracker
from tokenworks.hosts.runner import Watch
from tokenworks.hosts.sources import CHECKOUT

ENGINE: Final = "pulumi"
_POOL: Final = TypeAdapter(Pool)
_LOOK_EVERY_SECONDS: Final = 1
Operation = Callable[[Pool, Watch, threading.Event | None], PoolReport]


def pool_inputs(pool: Pool) -> dict[str, Any]:
    """Return the inputs of a pool's resource: all that decides a run, and a digest over it."""
    return {"pool": _POOL.dump_python(pool, mode="json"), "digest": digest(pool, CHECKOUT)}


class PoolProvider(ResourceProvider):
    """Prepares the hosts of a pool, and says how they are."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Bring every host to its lock."""
        outputs = _prepared(props)
        return CreateResult(id_=str(props["pool"]["name"]), outs=outputs)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Bring every host to its lock."""
        return UpdateResult(outs=_prepared(_news))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """A run is due when what decides it has changed, or when a host has drifted."""
        return DiffResult(
            changes=_olds.get("digest") != _news["digest"] or bool(_olds.get("drift"))
        )

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Verify every host; what is wrong appears as drift, and makes the next update repair it.

        Raises:
            OperationError: a host could not be looked at, so that nothing can be said of it.
        """
        report = _run(props, verify_pool, "verify")
        unknown = [host for host in report.hosts if not (host.observed and host.told)]
        if unknown:
            raise failure(report, unknown, "verification")
        drift = {host.host: _wrong(host) for host in report.hosts if not host.outcome.good}
        return ReadResult(id_, {**props, "hosts": _hosts(report), "drift": drift})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Forget the hosts: machines that exist keep what they have."""


def _prepared(props: Mapping[str, Any]) -> dict[str, Any]:
    report = _run(props, prepare_pool, "prepare")
    bad = [host for host in report.hosts if not host.outcome.good]
    if bad:
        raise failure(report, bad, "preparation")
    return {**props, "hosts": _hosts(report), "drift": {}}


def _run(props: Mapping[str, Any], operation: Operation, verb: str) -> PoolReport:
    pool = _POOL.validate_python(plain(props["pool"]))
    # The engine shows what a provider prints as messages of the update.
    tracker = Tracker(f"{verb} {pool.name}", Console(file=sys.stderr, no_color=True, width=200))
    with while_the_engine_lives() as gone:
        return operation(pool, tracker, gone)


@contextlib.contextmanager
def while_the_engine_lives() -> Iterator[threading.Event]:
    """An event that is set once the engine is gone.

    An engine that is killed leaves its plugins behind, and with them a run on hosts, into which the
    next update would run.
    """
    gone, over = threading.Event(), threading.Event()
    engine = _engine()

    def look() -> None:
        while engine is not None and not over.wait(_LOOK_EVERY_SECONDS):
            if _name(engine) != ENGINE:
                gone.set()
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield gone
    finally:
        over.set()


def _engine() -> int | None:
    """The process of the engine, which is an ancestor of this one."""
    process = os.getppid()
    while process > 1:
        if _name(process) == ENGINE:
            return process
        process = _parent(process)
    return None


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text("utf-8").strip()
    except OSError:
        return ""


def _parent(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text("utf-8")
    except OSError:
        return 0
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


def plain(value: Any) -> Any:
    """Whole numbers as such: on their way through the engine they become floating."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child) for child in value]
    return value


def _hosts(report: PoolReport) -> dict[str, Any]:
    return {
        host.host: {"outcome": host.outcome.value, "observed": dict(host.observed)}
        for host in report.hosts
    }


def _wrong(host: HostReport) -> list[str]:
    return list(host.wrong) or [host.message]


def failure(report: PoolReport, bad: list[HostReport], what: str) -> OperationError:
    """What is said of a run that left hosts which are not good."""
    lines = [f"  {host.host} {host.outcome.value}: {_sentence(host)}" for host in bad]
    good = len(report.hosts) - len(bad)
    return OperationError(
        f"{what} of pool {report.pool}",
        reason=f"{len(bad)} of {len(report.hosts)} hosts are not good, {good} are:\n"
        + "\n".join(lines),
        remedy="correct what is named for each host and run it again, which is safe",
    )


def _sentence(host: HostReport) -> str:
    where = f"at {host.task}: " if host.task else ""
    return f"{where}{host.message}" + (f"; {host.remedy}" if host.remedy else "")
