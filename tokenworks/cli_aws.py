"""``tokenworks aws``: what an AWS environment needs before its stacks, and cannot get from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tokenworks.aws.images import KEPT_UNUSED
from tokenworks.cli_common import AsJson, Environment, Yes, errors, out, print_json
from tokenworks.workspace import Workspace, find_workspace

aws = typer.Typer(
    name="aws",
    help="An AWS environment's state, leftovers, images, quotas and adoption.",
    no_args_is_help=True,
)
images = typer.Typer(help="Machine images of an environment.", no_args_is_help=True)
aws.add_typer(images, name="images")

WithData = Annotated[
    bool, typer.Option("--with-data", help="Also weights, their keys and the network.")
]


@aws.command()
def bootstrap(environment: Environment, yes: Yes = False, as_json: AsJson = False) -> None:
    """Make the bucket and the key for Pulumi's state, before the first `up`; outside every stack.

    With --json alone it says what it would do, and does nothing.
    """
    from tokenworks.aws.bootstrap import plan_bootstrap
    from tokenworks.aws.bootstrap_steps import carry_out, observe
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.report.aws_account import actions_table
    from tokenworks.show import to_data

    with errors():
        cloud = find_cloud(find_workspace(), environment)
        observed = observe(cloud)
        actions = plan_bootstrap(observed, cloud.target)
        if as_json:
            print_json(to_data(actions))
        elif not actions:
            typer.echo(f"{cloud.target.backend_url} is as it should be")
        else:
            out().print(actions_table(actions))
        if actions and _agreed(f"Do this in {_place(cloud.target)}?", yes=yes, as_json=as_json):
            carry_out(cloud, observed, actions, _say)


@aws.command()
def sweep(environment: Environment, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete what the cluster's controllers left behind, known as ours by its tags alone.

    With --json alone it says what it would delete, and deletes nothing. Exit code 1: something of
    ours is left.
    """
    from tokenworks.operations import aws_sweep
    from tokenworks.operations.aws_state import cloud_and_backend
    from tokenworks.report.aws_account import sweep_tables
    from tokenworks.show import to_data

    with errors():
        cloud, backend = cloud_and_backend(find_workspace(), environment)
        plan = aws_sweep.survey(cloud, backend)
        if not as_json:
            out().print(sweep_tables(plan))
        question = f"Delete {len(plan.steps)} in {_place(cloud.target)}?"
        if plan.steps and _agreed(question, yes=yes, as_json=as_json):
            done = aws_sweep.sweep(cloud, backend, plan, _say)
            print_json(to_data(done)) if as_json else None
            aws_sweep.refuse_failures(cloud, done.swept.failed, plan.blocked)
            return
        print_json(to_data(plan)) if as_json else None
        aws_sweep.refuse_failures(cloud, (), plan.blocked)


@aws.command()
def unprotect(environment: Environment, with_data: WithData = False) -> None:
    """First of two steps to delete what is protected: take the guard off; deletes nothing.

    Asks for the environment's name to be typed. The second step is `tokenworks down`.
    """
    from tokenworks.operations.aws_down import list_guarded, unprotect

    workspace = find_workspace()
    with errors():
        session, cloud = _session_and_cloud(workspace, environment)
        guarded = list_guarded(session, cloud, with_data=with_data)
        for line in guarded:
            typer.echo(line)
        typer.echo(f"{len(guarded)} protected in state; EKS guards its cluster by itself as well")
        _typed(environment, "These could be deleted afterwards.")
        unprotect(session, cloud, with_data=with_data)
        more = " --with-data" if with_data else ""
        typer.echo(f"next: tokenworks down {environment}{more}; `up` protects them again")


@aws.command("import-plan")
def import_plan(
    environment: Environment,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a file for `pulumi import --file` a stack."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What stacks whose state is lost can adopt, by names and tags; changes nothing in AWS."""
    from tokenworks.operations.aws_import import plan_adoption, write_files
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.planning import plan_environment
    from tokenworks.report.aws_account import adoption_tables
    from tokenworks.show import to_data

    workspace = find_workspace()
    with errors():
        cloud = find_cloud(workspace, environment)
        adoption = plan_adoption(workspace, plan_environment(workspace, environment), cloud)
        if as_json:
            files = {plan.stack: plan.file() for plan in adoption.plans if plan.matches}
            unclear = {plan.stack: to_data(plan.unclear) for plan in adoption.plans}
            missing = {plan.stack: to_data(plan.missing) for plan in adoption.plans}
            strangers = to_data(adoption.strangers)
            told = {"files": files, "unclear": unclear, "missing": missing}
            print_json({**told, "strangers": strangers})
        else:
            out().print(adoption_tables(adoption.plans, adoption.strangers))
        if write is not None:
            for file in write_files(adoption, write):
                typer.echo(f"written: {file}", err=True)


@aws.command()
def quotas(environment: Environment, as_json: AsJson = False) -> None:
    """What the environment needs of service quotas, and has. Exit code 3: not all is known."""
    from tokenworks.operations.aws_quotas import check_quotas
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.planning import plan_environment
    from tokenworks.report.aws_account import quotas_table
    from tokenworks.show import to_data

    workspace = find_workspace()
    with errors():
        cloud = find_cloud(workspace, environment)
        plan = plan_environment(workspace, environment)
        verdicts = check_quotas(cloud, plan.aws.quotas if plan.aws else ())
        print_json(to_data(verdicts)) if as_json else out().print(quotas_table(verdicts))
        enough = [verdict.enough for verdict in verdicts]
        if False in enough or None in enough:
            raise typer.Exit(1 if False in enough else 3)


@aws.command()
def versions(
    environment: Environment,
    program: Annotated[str, typer.Argument(help="network, storage, image, cluster or serving.")],
    as_json: AsJson = False,
) -> None:
    """Earlier versions of a stack's state, newest first."""
    from tokenworks.operations.aws_restore import versions_of
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.report.aws_account import versions_table
    from tokenworks.show import to_data

    with errors():
        found = versions_of(find_cloud(find_workspace(), environment), program)
        print_json(to_data(found)) if as_json else out().print(versions_table(found))


@aws.command()
def restore(
    environment: Environment,
    program: Annotated[str, typer.Argument(help="network, storage, image, cluster or serving.")],
    version: Annotated[str, typer.Argument(help="A version that `tokenworks aws versions` shows.")],
    yes: Yes = False,
) -> None:
    """Make an earlier version of a stack's state the latest; the present one stays a version."""
    from tokenworks.operations.aws_restore import restore, versions_of
    from tokenworks.operations.aws_state import cloud_and_backend
    from tokenworks.report.aws_account import versions_table

    with errors():
        cloud, backend = cloud_and_backend(find_workspace(), environment)
        out().print(versions_table(versions_of(cloud, program)))
        if _agreed(f"Make {version} the latest state of {program}?", yes=yes, as_json=False):
            stack = restore(cloud, backend, program, version)
            _say(f"{stack}: restored; next: pulumi refresh --stack {stack}")


@images.command()
def collect(
    environment: Environment,
    keep: Annotated[
        int, typer.Option(min=0, help="Newest unused images to keep, for a rollback.")
    ] = KEPT_UNUSED,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Deregister images of ours, with their snapshots, from which nothing runs or could start.

    With --json alone it says what it would do, and does nothing.
    """
    from tokenworks.operations.aws_images import collect_images, judge
    from tokenworks.operations.aws_target import find_cloud
    from tokenworks.report.aws_account import images_table
    from tokenworks.show import to_data

    workspace = find_workspace()
    with errors():
        cloud = find_cloud(workspace, environment)
        verdicts = judge(workspace, cloud, keep)
        print_json(to_data(verdicts)) if as_json else out().print(images_table(verdicts))
        going = sum(verdict.goes for verdict in verdicts)
        question = f"Deregister {going} images in {_place(cloud.target)}?"
        if going and _agreed(question, yes=yes, as_json=as_json):
            collect_images(workspace, cloud, verdicts, keep, _say)


def take_down_aws(workspace: Workspace, environment: str, *, with_data: bool) -> None:
    """Take an AWS environment down; with its data only after its name was typed."""
    from tokenworks.operations.aws_down import take_down_cloud
    from tokenworks.operations.guards import Place, refuse_other_platform
    from tokenworks.report.aws_account import kept_table

    refuse_other_platform(workspace, Place(name=environment, platform="aws", kubeconfig=None))
    if with_data:
        what = "Weights, their keys, the network and volumes of claims are deleted."
        _typed(environment, what)
    session, cloud = _session_and_cloud(workspace, environment)
    left = take_down_cloud(session, cloud, with_data=with_data)
    out().print(kept_table(left))


def _session_and_cloud(workspace: Workspace, environment: str) -> tuple[Any, Any]:
    from tokenworks.operations.aws_state import cloud_and_backend
    from tokenworks.operations.session import open_session

    cloud, backend = cloud_and_backend(workspace, environment)
    return open_session(workspace, Console(stderr=True), backend), cloud


def _typed(environment: str, warning: str) -> None:
    """Go on only if the environment's name is typed; no option types it for anybody."""
    typer.echo(warning, err=True)
    if typer.prompt(f"Type {environment} to go on", err=True, default="") != environment:
        typer.echo("that is not its name; nothing was changed", err=True)
        raise typer.Exit(1)


def _agreed(question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether to act: by the option, or asked; JSON is for machines, which nobody asks."""
    if yes or as_json:
        return yes
    if not typer.confirm(question):
        raise typer.Exit(1)
    return True


def _place(target: Any) -> str:
    return f"account {target.account}, {target.region}"


def _say(text: str) -> None:
    typer.echo(text, err=True)
