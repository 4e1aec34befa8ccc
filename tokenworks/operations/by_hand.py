"""The ordinary commands that do what tokenworks does, and what to try next."""

from __future__ import annotations

from tokenworks.operations.session import SHELL_FILE
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
    return "\n".join([_source(workspace), *commands])


def next_steps(workspace: Workspace, plan: Plan, request: str | None) -> str:
    """What to look at once an environment is up; ``request`` is a command that gets an answer."""
    environment = plan.environment
    local = workspace.kubeconfig(environment)
    kubeconfig = plan.cluster.kubeconfig if plan.cluster else local
    return "\n".join(
        [
            f"{environment} is up. Next:",
            f"  {_source(workspace)}",
            f"  kubectl --kubeconfig {kubeconfig} get pods --all-namespaces",
            "  pulumi stack ls",
            f"  tokenworks doctor {environment}",
            f"  tokenworks down {environment}",
            *(("A streamed answer:", request) if request else ()),
        ]
    )


def _source(workspace: Workspace) -> str:
    return f"source {workspace.machine / SHELL_FILE}"
