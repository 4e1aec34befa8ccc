"""``tokenworks gateway``: an environment's gateway on this machine, and what can be done to it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from tokenworks.cli_common import AsJson, Environment, errors, out, print_json
from tokenworks.workspace import find_workspace

gateway = typer.Typer(
    name="gateway",
    help="The gateway on this machine: real Envoy, rate limits and store, simulated engines.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="A process that `tokenworks gateway status` shows.")]


@gateway.command()
def serve(environment: Environment) -> None:
    """Serve an environment's gateway on loopback until Ctrl-C."""
    from tokenworks.operations.gateway_serve import serve as served

    with errors(), _ended_by_signals() as over:
        served(find_workspace(), environment, Console(stderr=True), over)


@gateway.command()
def status(environment: Environment, as_json: AsJson = False) -> None:
    """What of a served gateway runs, and where."""
    from tokenworks.operations.gateway_control import parts_of
    from tokenworks.operations.gateway_serve import folders_of, parts_table

    with errors():
        parts = parts_of(folders_of(find_workspace(), environment), environment)
        print_json([asdict(each) for each in parts]) if as_json else out().print(parts_table(parts))


@gateway.command()
def stop(environment: Environment, name: Name) -> None:
    """Stop an engine, the rate-limit service or its store, to see what the gateway does then."""
    _set_running(environment, name, running=False)


@gateway.command()
def start(environment: Environment, name: Name) -> None:
    """Start again what was stopped or has ended."""
    _set_running(environment, name, running=True)


@gateway.command(name="set")
def set_(
    environment: Environment,
    name: Name,
    settings: Annotated[
        list[str], typer.Argument(help="Settings as name=value, such as fault=unavailable.")
    ],
) -> None:
    """Change how a simulated engine behaves: speed, queue, faults."""
    from tokenworks.operations.gateway_control import change_engine, find, parts_of
    from tokenworks.operations.gateway_serve import folders_of

    with errors():
        folders = folders_of(find_workspace(), environment)
        part = find(parts_of(folders, environment), name)
        print_json(change_engine(part, settings))


def _set_running(environment: str, name: str, *, running: bool) -> None:
    from tokenworks.operations.gateway_control import set_running
    from tokenworks.operations.gateway_serve import folders_of

    with errors():
        folders = folders_of(find_workspace(), environment)
        part = set_running(folders, environment, name, running=running)
        typer.echo(f"{part.name}: {part.state}")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, for as long as the block lasts."""
    over = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: over.set()) for number in numbers}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
