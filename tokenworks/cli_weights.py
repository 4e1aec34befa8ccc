"""``tokenworks lock weights``: the manifest of a model's files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from tokenworks.cli_common import AsJson, errors, out, print_json
from tokenworks.environment.weights_source import HUB
from tokenworks.workspace import find_workspace


def lock_weights(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    repository: Annotated[str, typer.Argument(help="Model repository, organisation/name.")],
    revision: Annotated[
        str, typer.Argument(help="Commit; a branch or tag is resolved to the commit it means now.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Sum the files there instead of asking the hub."),
    ] = None,
    hub: Annotated[str, typer.Option(metavar="URL", help="The hub, or its mirror.")] = HUB,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with a token that may read the model.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Take these files, such as '*.safetensors'; may be given several times. Left "
            "out, what engines need of the top folder.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Left out, stacks/weights/<name>.json."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare only; exit 1 where the manifest differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Path, size and SHA-256 sum of every file that engines need, as a file to commit."""
    from tokenworks.operations.weights import WeightsRequest, lock_weights
    from tokenworks.report.weights import differences_table
    from tokenworks.show import to_data

    asked = WeightsRequest(
        repository=repository,
        revision=revision,
        hub=hub,
        folder=folder,
        token_file=token_file,
        include=tuple(include or ()),
    )
    with errors():
        today = datetime.datetime.now(datetime.UTC).date()
        done = lock_weights(find_workspace(), asked, file, verify=verify, today=today)
        if as_json:
            print_json(to_data(done))
        elif verify:
            state = "differs" if done.differences else "the same"
            typer.echo(f"{done.file}: {state}")
        else:
            typer.echo(
                f"written: {done.file}, {len(done.manifest.files)} files of "
                f"{done.manifest.total_bytes / 10**9:.1f} GB at {done.manifest.revision}"
            )
            if done.left_out:
                typer.echo(f"left out, name them with --include: {', '.join(done.left_out)}")
        if done.differences and not as_json:
            out().print(differences_table(done.file.name, done.differences))
        if done.differences:
            raise typer.Exit(1)
