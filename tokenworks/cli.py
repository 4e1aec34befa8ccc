"""The command tree; every command is a few lines over an operation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tokenworks.check.formats import Format, rendered
from tokenworks.cli_aws import aws, take_down_aws
from tokenworks.cli_common import AsJson, Environment, Explain, Yes, errors, out, print_json
from tokenworks.cli_gateway import gateway
from tokenworks.cli_weights import lock_weights
from tokenworks.errors import OperationError
from tokenworks.workspace import Workspace, find_workspace

app = typer.Typer(
    name="tokenworks",
    help="Self-hosted LLM inference: plan it, check it, bring it up, take it down.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(gateway)
app.add_typer(aws)
lock_app = typer.Typer(help="Resolve what is asked for to exact versions.", no_args_is_help=True)
app.add_typer(lock_app, name="lock")
lock_app.command("weights")(lock_weights)
hosts_app = typer.Typer(help="Machines that exist: see, prepare, verify.", no_args_is_help=True)
app.add_typer(hosts_app, name="hosts")


Manifests = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Judge Kubernetes manifests instead: a file, a folder, or - for input. "
        "May be given several times.",
    ),
]
Lists = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Judge a list of {type, name, properties} instead."),
]
Deployed = Annotated[
    bool,
    typer.Option(
        "--deployed", help="Judge what is deployed instead: the stacks' state and the cluster."
    ),
]
Output = Annotated[Format, typer.Option("--format", help="What to print on standard output.")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF there as well.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML there as well.")]


@app.command()
def plan(
    environment: Environment,
    as_json: AsJson = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Only why one value is so, such as models.qwen3-32b.replicas."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a break-even curve (SVG) for each model there."),
    ] = None,
) -> None:
    """Every decision about an environment, with its reason."""
    from tokenworks.planning import plan_environment
    from tokenworks.report.curve import write_curves
    from tokenworks.report.explain import explain as reasons
    from tokenworks.show import plan_tables, to_data

    with errors():
        decided = plan_environment(find_workspace(), environment)
        if plot is not None:
            for file in write_curves(decided, plot):
                typer.echo(f"written: {file}", err=True)
        if explain is not None:
            chain = reasons(decided, explain)
            print_json(to_data(chain)) if as_json else _say("\n".join(map(str, chain)))
            return
        print_json(to_data(decided)) if as_json else out().print(plan_tables(decided))


@app.command()
def size(
    cases: Annotated[Path, typer.Option(help="JSON list of cases: engine, model, GPUs, lengths.")],
    models: Annotated[
        Path | None,
        typer.Option(help="Models by name, one config.json, or a folder; left out, those shipped."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The memory law alone: what fits, how many tokens, and why not."""
    from tokenworks.operations.size import size_cases, size_table

    with errors():
        answers = size_cases(cases, models, look_for_ways=not as_json)
        records = [answer.sized.record() for answer in answers]
        print_json(records) if as_json else out().print(size_table(answers))


@app.command()
def check(
    environments: Annotated[
        list[str] | None, typer.Argument(help="Environments; all of them when none is named.")
    ] = None,
    manifests: Manifests = None,
    resources: Lists = None,
    deployed: Deployed = False,
    output: Output = Format.TEXT,
    as_json: AsJson = False,
    sarif: Sarif = None,
    junit: Junit = None,
) -> None:
    """The pull-request check: run every program without a cloud and judge what it would create.

    Exit code 0 is good, 1 refused, 2 wrong usage. 3 means that something could not be told, and
    nothing that could be told was refused.
    """
    from tokenworks.operations.check import Asked, run_check

    asked = Asked(
        environments=tuple(environments or ()),
        manifests=tuple(manifests or ()),
        lists=tuple(resources or ()),
        deployed=deployed,
    )
    if asked.problem:
        raise typer.BadParameter(asked.problem)
    with errors():
        workspace = find_workspace()
        judgement = run_check(asked, workspace, lambda: _session(workspace, None))
        _report(judgement, Format.JSON if as_json else output, workspace)
        for wanted, file in ((Format.SARIF, sarif), (Format.JUNIT, junit)):
            if file is not None:
                _write(file, rendered(judgement, wanted, workspace.root))
        raise typer.Exit(judgement.outcome.exit_code)


@app.command()
def preview(environment: Environment, as_json: AsJson = False, explain: Explain = False) -> None:
    """What `up` would change, stack by stack, with policies."""
    from tokenworks.operations.by_hand import by_hand
    from tokenworks.operations.preview import preview as previewed
    from tokenworks.planning import plan_environment
    from tokenworks.show import changes_table, to_data

    workspace = find_workspace()
    with errors():
        decided = plan_environment(workspace, environment)
        if explain:
            _say(by_hand(workspace, environment, decided.platform, "preview"))
            return
        changes = previewed(_session(workspace, environment), decided)
        print_json(to_data(changes)) if as_json else out().print(changes_table(changes))


@app.command()
def up(
    environment: Annotated[
        str | None,
        typer.Argument(
            help="Name of a file in stacks/; left out, onenode where this machine can be a real "
            "node, else local."
        ),
    ] = None,
    yes: Yes = False,
    explain: Explain = False,
) -> None:
    """Bring an environment up, or make it again what its file says."""
    from tokenworks.operations.by_hand import by_hand, next_steps
    from tokenworks.operations.choice import chosen, likely
    from tokenworks.operations.up import bring_up
    from tokenworks.planning import plan_environment

    workspace, say = find_workspace(), partial(typer.echo, err=True)
    with errors():
        if environment is None:
            choice = likely(workspace) if explain else chosen(workspace, say)
            environment = choice.environment
            say(f"bringing up {environment}: {choice.because}")
        decided = plan_environment(workspace, environment)
        if explain:
            _say(by_hand(workspace, environment, decided.platform, "up"))
            return
        session = _session(workspace, environment)
        done = bring_up(session, decided, None if yes else typer.confirm)
        _say(next_steps(workspace, decided, done.request))


@app.command()
def down(
    environment: Environment,
    yes: Yes = False,
    explain: Explain = False,
    with_data: Annotated[
        bool,
        typer.Option(
            "--with-data",
            help="On AWS also weights, their keys, the network, and volumes of claims; asks for "
            "the name to be typed.",
        ),
    ] = False,
) -> None:
    """Delete everything of an environment; its keys and certificate stay."""
    from tokenworks.environment.load import load_environment
    from tokenworks.operations.by_hand import by_hand
    from tokenworks.operations.down import take_down

    workspace = find_workspace()
    with errors():
        asked = load_environment(environment, workspace.stacks).environment
        if explain:
            _say(by_hand(workspace, environment, asked.platform, "destroy"))
            return
        if asked.aws is None and with_data:
            raise typer.BadParameter(f"{environment} keeps no data in AWS; leave --with-data out")
        if not yes and not typer.confirm(f"Delete everything of {environment}?"):
            raise typer.Exit(1)
        if asked.aws is not None:
            take_down_aws(workspace, environment, with_data=with_data)
        else:
            take_down(_session(workspace, environment), environment, asked)


@app.command()
def doctor(
    environment: Annotated[
        str | None, typer.Argument(help="An environment; left out, only tools are looked at.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What is found, built or missing; with an environment also what is wrong with it."""
    from tokenworks.operations.doctor import examine
    from tokenworks.planning import plan_environment
    from tokenworks.show import findings_table, to_data, tools_table
    from tokenworks.toolchain import ENVIRONMENT_TOOLS, inspect

    with errors():
        if environment is None:
            tools = inspect()
            print_json(to_data(tools)) if as_json else out().print(tools_table(tools))
            return
        workspace, tools = find_workspace(), inspect(ENVIRONMENT_TOOLS)
        findings = examine(workspace, plan_environment(workspace, environment), tools)
        print_json(to_data(findings)) if as_json else out().print(findings_table(findings))
        _exit_by([finding.well for finding in findings])


@lock_app.command("hosts")
def lock_hosts(
    what: Annotated[
        str, typer.Argument(help="An environment, or a file in stacks/hosts/requests/.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare only; exit 1 where a lock differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Every package of a kind of host at one version, with its hash, from signed repositories."""
    from tokenworks.operations.hosts import lock_hosts as locked
    from tokenworks.report.hosts import differences_table
    from tokenworks.show import to_data

    with errors():
        done = locked(find_workspace(), what, verify=verify)
        if as_json:
            print_json(to_data(done))
        for one in () if as_json else done:
            state = "differs" if one.differences else "the same"
            _say(f"{one.file}: {state}" if verify else f"written: {one.file}")
            if one.differences:
                out().print(differences_table(one.file.name, one.differences))
        if verify and any(one.differences for one in done):
            raise typer.Exit(1)


@hosts_app.command("check")
def hosts_check(
    environment: Environment, as_json: AsJson = False, explain: Explain = False
) -> None:
    """What `prepare` would do to each machine, and why; changes nothing."""
    from tokenworks.hosts.operate import check_pool

    _on_hosts(environment, "check", check_pool, as_json=as_json, explain=explain)


@hosts_app.command("prepare")
def hosts_prepare(
    environment: Environment, yes: Yes = False, as_json: AsJson = False, explain: Explain = False
) -> None:
    """Bring each machine to its lock, one failure domain after the other."""
    from tokenworks.hosts.operate import check_pool, prepare_pool

    if not yes and not explain:
        # A machine that is unwell keeps no other from its turn; without it people go on as well.
        bad = _show_hosts(environment, "check", check_pool, as_json=False, explain=False)
        others = "Some machines cannot be prepared as they are. Prepare the others?"
        if not typer.confirm(others if bad else "Do this?"):
            raise typer.Exit(1)
    _on_hosts(environment, "prepare", prepare_pool, as_json=as_json, explain=explain)


@hosts_app.command("verify")
def hosts_verify(
    environment: Environment, as_json: AsJson = False, explain: Explain = False
) -> None:
    """Whether each machine is as locked, and its GPUs good; changes nothing."""
    from tokenworks.hosts.operate import verify_pool

    _on_hosts(environment, "verify", verify_pool, as_json=as_json, explain=explain)


def _on_hosts(environment: str, verb: str, operation: Any, *, as_json: bool, explain: bool) -> None:
    """Run an operation on the machines, show what became of each, and leave if one is unwell."""
    if code := _show_hosts(environment, verb, operation, as_json=as_json, explain=explain):
        raise typer.Exit(code)


def _show_hosts(
    environment: str, verb: str, operation: Any, *, as_json: bool, explain: bool
) -> int:
    """Run an operation on the machines and show what became of each; return the exit code."""
    from tokenworks.operations import hosts
    from tokenworks.report.hosts import observed_table, pool_table
    from tokenworks.show import to_data

    workspace = find_workspace()
    with errors():
        if explain:
            _say(hosts.by_hand(workspace, environment, f"{verb}.yml"))
            return 0
        pools = hosts.pools_of(workspace, environment)
        reports = hosts.run_on_pools(pools, operation, verb, Console(stderr=True))
        if as_json:
            print_json(to_data(reports))
        for report in () if as_json else reports:
            out().print(pool_table(report))
            out().print(observed_table(report))
        return hosts.exit_code(reports, pools)


def _exit_by(results: list[bool | None]) -> None:
    if False in results:
        raise typer.Exit(1)
    if None in results:
        raise typer.Exit(3)


def _report(judgement: Any, wanted: Format, workspace: Workspace) -> None:
    """Print a judgement; on a terminal, text is a table."""
    if wanted is Format.TEXT and sys.stdout.isatty():
        from tokenworks.check.report import as_table

        out().print(as_table(judgement))
    else:
        _say(rendered(judgement, wanted, workspace.root).rstrip())


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        remedy = "name a file in a folder that exists and can be written"
        raise OperationError(f"report {file}", reason=str(error), remedy=remedy) from error


def _session(workspace: Workspace, environment: str | None) -> Any:
    from tokenworks.operations.session import session_of

    return session_of(workspace, environment, Console(stderr=True))


def _say(text: str) -> None:
    typer.echo(text)


if __name__ == "__main__":
    app()
