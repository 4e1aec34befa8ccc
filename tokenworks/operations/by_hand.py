"""The ordinary commands that do what tokenworks does, and what to try next."""

from __future__ import annotations

from tokenworks.naming import cluster_name
from tokenworks.operations.backends import shell_file
from tokenworks.plan.types import Plan
from tokenworks.workspace import PROGRAMS, Workspace, stack_name


def by_hand(workspace: Workspace, environment: str, platform: str, verb: str) -> str:
    """The Pulumi commands that run one verb on every stack of an environment, in order."""
    programs = PROGRAMS[platform] if verb != "destroy" else tuple(reversed(PROGRAMS[platform]))
    pack = workspace.policy_pack.relative_to(workspace.root)
    policies = "" if verb == "destroy" else f" --policy-pack {pack}"
    commands = [
        f"pulumi {verb} --stack {stack_name(environment, program)}{policies}"
        for program in programs
    ]
    return "\n".join([_source(workspace, environment, platform), *commands])


def next_steps(workspace: Workspace, plan: Plan, request: str | None) -> str:
    """What to look at once an environment is up; ``request`` is a command that gets an answer."""
    environment = plan.environment
    return "\n".join(
        [
            f"{environment} is up. Next:",
            f"  {_source(workspace, environment, plan.platform)}",
            *(f"  {line}" for line in _look_at_pods(workspace, plan)),
            "  pulumi stack ls",
            f"  tokenworks doctor {environment}",
            f"  tokenworks down {environment}",
            *(("A streamed answer:", request) if request else ()),
        ]
    )


def _look_at_pods(workspace: Workspace, plan: Plan) -> list[str]:
    """Commands that show the pods; credentials for EKS are written by AWS's own tool."""
    local = workspace.kubeconfig(plan.environment)
    kubeconfig = plan.cluster.kubeconfig if plan.cluster else local
    first = [write_kubeconfig(workspace, plan.environment)] if plan.platform == "aws" else []
    return [*first, f"kubectl --kubeconfig {kubeconfig} get pods --all-namespaces"]


def write_kubeconfig(workspace: Workspace, environment: str) -> str:
    """The command that writes credentials for an environment's EKS cluster."""
    kubeconfig = workspace.kubeconfig(environment)
    return f"aws eks update-kubeconfig --name {cluster_name(environment)} --kubeconfig {kubeconfig}"


def _source(workspace: Workspace, environment: str, platform: str) -> str:
    return f"source {shell_file(workspace, environment, platform)}"
