"""What is looked at before an environment is touched: that it is the one that was brought up.

Stacks are found by an environment's name, and objects have fixed names. So a kubeconfig that leads
elsewhere today, a file that names another platform, or a checkout without the state would have one
environment's objects made or deleted in the place of another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tokenworks.errors import OperationError
from tokenworks.files import private_folder, write_whole
from tokenworks.naming import ENGINES_NAMESPACE, GATEWAY_NAMESPACE
from tokenworks.operations.backends import local_backend
from tokenworks.operations.objects import OURS, cluster_id, objects, our_objects, spell
from tokenworks.operations.session import Session
from tokenworks.operations.stacks import Stacks
from tokenworks.plan.types import Plan
from tokenworks.workspace import PROJECT, Workspace, stack_name

_COMMON = ("cluster", "serving")
"""Programs that every platform has."""
_MADE_AGAIN = frozenset(
    {
        "ConfigMap",
        "Endpoints",
        "Event",
        "Lease",
        "LimitRange",
        "NetworkPolicy",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    }
)
"""Kinds that controllers and administrators put into every namespace, and make again."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an environment is, by its file: its name, platform, and the kubeconfig it names."""

    name: str
    platform: str
    kubeconfig: str | None

    @classmethod
    def of(cls, plan: Plan) -> Place:
        """The place of a plan."""
        given = plan.cluster.kubeconfig if plan.cluster else None
        return cls(name=plan.environment, platform=plan.platform, kubeconfig=given)


def refuse_another_place(session: Session, place: Place) -> None:
    """Refuse where what was brought up under this name is somewhere else.

    Raises:
        OperationError: it was brought up on another platform or in another cluster, or this
            checkout has no state of what is there.
    """
    refuse_other_platform(session.workspace, place)
    if place.platform != "hosts":
        return
    kubectl = session.toolbox.path("kubectl")
    kubeconfig = session.workspace.kubeconfig(place.name, place.kubeconfig)
    if _is_up(session.stacks, place.name):
        recorded = _recorded(session.workspace, place.name)
        now = cluster_id(kubectl, kubeconfig) if recorded else None
        if now != recorded:
            raise OperationError(
                f"cluster of {place.name}",
                reason=f"{kubeconfig} leads to cluster {now}, and it was brought up in {recorded} "
                "(UIDs of namespace kube-system)",
                remedy="correct cluster.kubeconfig or the file's current context; nothing was "
                "changed",
            )
    elif there := our_objects(kubectl, kubeconfig, environment=place.name):
        raise OperationError(
            f"state of {place.name}",
            reason=f"is not in this checkout, but its objects exist: {some_of(there)}",
            remedy="work in the checkout that brought it up, or put its .tokenworks/state, "
            ".tokenworks/passphrase and stacks/Pulumi.*.yaml here; nothing was changed",
        )


def refuse_other_platform(workspace: Workspace, place: Place) -> None:
    """Refuse where the stacks of this name were brought up on another platform.

    Raises:
        OperationError: with the platform that their settings and states tell of.
    """
    for program in _COMMON:
        stack = stack_name(place.name, program)
        was = _platform_of(workspace, stack, place.name)
        if was is not None and was != place.platform:
            raise OperationError(
                f"platform of {place.name}",
                reason=f"is {place.platform} in its file, and {stack} was brought up on {was}",
                remedy=f"put platform: {was} back and run `tokenworks down {place.name}`, or give "
                f"the new one a name of its own; once it is down, {workspace.settings(stack)} may "
                "go; nothing was changed",
            )


def remember_cluster(session: Session, place: Place) -> None:
    """Note in which cluster an environment is brought up, where that is one that exists.

    A note without a state is of another time: plain Pulumi has destroyed what it tells of.
    """
    recorded = _recorded(session.workspace, place.name)
    known = recorded is not None and _is_up(session.stacks, place.name)
    if place.platform == "hosts" and not known:
        kubeconfig = session.workspace.kubeconfig(place.name, place.kubeconfig)
        file = _record(session.workspace, place.name)
        write_whole(
            private_folder(file.parent) / file.name,
            cluster_id(session.toolbox.path("kubectl"), kubeconfig),
        )


def forget_cluster(workspace: Workspace, name: str) -> None:
    """Drop that note: nothing of the environment is there any more."""
    _record(workspace, name).unlink(missing_ok=True)


def refuse_what_others_made(session: Session, name: str, kubeconfig: Path) -> None:
    """Refuse to delete our namespaces while they hold what people put there.

    Such as a claim that weights are copied from, or an issuer with its key.

    Raises:
        OperationError: with everything that would go.
    """
    kubectl = session.toolbox.path("kubectl")
    theirs = tuple(sorted(spell(each) for each in objects(kubectl, kubeconfig) if is_theirs(each)))
    if theirs:
        raise OperationError(
            f"taking {name} down",
            reason="would delete its namespaces with what others put there: " + some_of(theirs),
            remedy="move or delete that first, or, if all of it may go, run what `tokenworks down "
            f"{name} --explain` prints; nothing was deleted",
        )


def is_theirs(found: dict[str, Any]) -> bool:
    """Whether people made an object in one of our namespaces, and not we or a controller."""
    metadata = found["metadata"]
    label, value = OURS.split("=")
    return (
        metadata.get("namespace") in (ENGINES_NAMESPACE, GATEWAY_NAMESPACE)
        and metadata.get("labels", {}).get(label) != value
        and not metadata.get("ownerReferences")
        and found["kind"] not in _MADE_AGAIN
        # Left behind by cert-manager, which signs it again.
        and "cert-manager.io/certificate-name" not in metadata.get("annotations", {})
    )


def refuse_lost_settings(stacks: Stacks, plan: Plan) -> None:
    """Refuse to touch a stack that is up from a checkout without its settings.

    New keys would be made, and those that callers hold would be refused from then on. A preview
    alone, Pulumi's own as well, makes a file without keys that looks like settings.

    Raises:
        OperationError: with the commands that bring them back.
    """
    stack = stack_name(plan.environment, "serving")
    file = stacks.workspace.settings(stack)
    wanted = any(tenant.key_secrets for tenant in plan.gateway.tenants)
    keys = [key for key in _settings(file).get("config") or () if key.startswith(f"{PROJECT}:")]
    if keys or not wanted or not stacks.resources(stack):
        return
    lacks = "holds none" if file.exists() else "is missing"
    away = f"remove {file} and " if file.exists() else ""
    raise OperationError(
        f"update of {stack}",
        reason=f"it is up, and its settings with the tenants' keys are not here: {file} {lacks}",
        remedy="take the file from whoever brought it up or, after `source "
        f"{stacks.backend.shell_file}`, {away}write it from the last update: `pulumi config "
        f"refresh --stack {stack}`",
    )


def _is_up(stacks: Stacks, name: str) -> bool:
    return any(stacks.resources(stack_name(name, program)) for program in _COMMON)


def _platform_of(workspace: Workspace, stack: str, name: str) -> str | None:
    """The platform that a stack's settings, or its state here, tell of; None where neither does."""
    if str(_settings(workspace.settings(stack)).get("secretsprovider", "")).startswith("awskms:"):
        return "aws"
    for one in local_backend(workspace).deployment(stack).get("resources") or ():
        kubeconfig = (one.get("inputs") or {}).get("kubeconfig")
        if one["type"] == "pulumi:providers:kubernetes" and isinstance(kubeconfig, str):
            here = Path(kubeconfig).parts[-3:] == (".tokenworks", name, "kubeconfig")
            return "simulated" if here else "hosts"
    return None


def _settings(file: Path) -> dict[str, Any]:
    """Pulumi's settings of a stack; empty where there are none."""
    if not file.is_file():
        return {}
    return dict(YAML(typ="safe").load(file.read_text("utf-8")) or {})


def _record(workspace: Workspace, name: str) -> Path:
    return workspace.machine / name / "cluster-uid"


def _recorded(workspace: Workspace, name: str) -> str | None:
    file = _record(workspace, name)
    return file.read_text("utf-8").strip() if file.is_file() else None


def some_of(names: Sequence[str], most: int = 10) -> str:
    """The first names of a list that may be long, and how many follow."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
