"""What the commands share: arguments, printing, and errors as exit codes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from tokenworks.errors import TokenworksError, UndecidableError

Environment = Annotated[str, typer.Argument(help="Name of a file in stacks/, without .yaml.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a machine to read.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Print the commands that do the same by hand, and stop.")
]


def out() -> Console:
    """Standard output; as wide as a table needs where nobody reads it on a terminal."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)


def print_json(data: Any) -> None:
    """Data for a machine, on standard output."""
    typer.echo(json.dumps(data, indent=2))


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Refusals are their message and exit code 1, or 3 where something could not be told."""
    try:
        yield
    except UndecidableError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(3) from error
    except TokenworksError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or str(error)
        typer.echo(f"error: {place}{reason}; make that right and run it again.", err=True)
        raise typer.Exit(1) from error
