"""The real node of a local environment: what it is made of, and joining it to its cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from tokenworks import naming
from tokenworks.engines import tensorrt_llm
from tokenworks.environment.lock import StandIn, StandIns
from tokenworks.environment.sections import Environment
from tokenworks.errors import OperationError
from tokenworks.files import write_whole
from tokenworks.images import local
from tokenworks.images.archive import Archive, archive
from tokenworks.images.oci import by_digest
from tokenworks.local_node import LocalNode, Machine, Parts, Ports
from tokenworks.local_node.debian import debian, debian_place
from tokenworks.local_node.preflight import (
    KERNEL_REMEDIES,
    Lack,
    judge,
    missing_features,
    probe,
)
from tokenworks.operations.gateway_serve import envoy_path
from tokenworks.operations.session import Session
from tokenworks.plan.gateway_images import ENVOY, RATE_LIMIT, STORE
from tokenworks.plan.nodes import gpu_nodes
from tokenworks.plan.types import Plan, PoolPlan
from tokenworks.planning import plan_environment
from tokenworks.templating import TEMPLATES
from tokenworks.toolchain import (
    GATEWAY_TOOLS,
    NODE_TOOLS,
    TOOLS,
    Toolbox,
    ensure,
    showing,
)
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.toolbox import memory_gib
from tokenworks.workspace import Workspace

_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
"""Labels that every kubelet sets itself, or that no kubelet may."""
REAL_NODE_TOOLS: Final = (*NODE_TOOLS, *GATEWAY_TOOLS)
"""What runs on a real node, or goes into its images."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What was made for a node before it starts."""

    debian: Path
    images: Archive
    toolbox: Toolbox


def lacks(workspace: Workspace, environment: str) -> tuple[Lack, ...]:
    """All that this machine lacks to be a node; the kernel is tried once the Debian is there."""
    place = debian_place(Cache.of(os.environ))
    found = _seen_lacks(workspace, environment)
    return found if found or not place.exists() else kernel_lacks(place)


def tried_lacks(
    workspace: Workspace, environment: str, say: Callable[[str], None]
) -> tuple[Lack, ...]:
    """The same with the kernel tried in any case: the Debian that this takes is made first."""
    found = _seen_lacks(workspace, environment)
    if found:
        return found
    try:
        root = debian(Cache.of(os.environ), say)
    except OperationError as error:
        return (Lack(what=f"{error.what} cannot be made: {error.reason}", remedy=error.remedy),)
    return kernel_lacks(root)


def _seen_lacks(workspace: Workspace, environment: str) -> tuple[Lack, ...]:
    """What can be seen without a Debian."""
    workspace.machine.mkdir(mode=0o700, exist_ok=True)
    place = debian_place(Cache.of(os.environ))
    probed = probe(
        workspace.machine,
        memory_gib=memory_gib(),
        can_make_debian=place.exists() or shutil.which("debootstrap") is not None,
        has_node=local_node(workspace, environment).is_there,
    )
    return judge(probed)


def kernel_lacks(root: Path) -> tuple[Lack, ...]:
    """What the kernel cannot do that a node needs, tried with the programs of its Debian."""
    return tuple(
        Lack(
            what=f"the kernel cannot do {name}",
            remedy=KERNEL_REMEDIES.get(name, "use a kernel that can"),
        )
        for name in missing_features(root)
    )


def make_ready(workspace: Workspace, environment: str, console: Console) -> Ready:
    """Everything that a node is made of; nothing runs yet.

    Raises:
        OperationError: the machine cannot be a node, with all that it lacks; or a part cannot be
            had.
    """

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    _refuse(environment, tried_lacks(workspace, environment, say))
    cache = Cache.of(os.environ)
    root = debian_place(cache)
    with showing(console) as report:
        toolbox = ensure(REAL_NODE_TOOLS, report)
    made = archive(cache, _sources(root, toolbox), _tags(workspace, environment), say)
    write_whole(workspace.stand_ins(environment), _stand_ins(made).model_dump_json(indent=2))
    return Ready(debian=root, images=made, toolbox=toolbox)


def _refuse(environment: str, found: tuple[Lack, ...]) -> None:
    if found:
        raise OperationError(
            f"a real node for {environment}",
            reason="; ".join(lack.what for lack in found),
            remedy="; ".join(dict.fromkeys(lack.remedy for lack in found)),
        )


def _sources(root: Path, toolbox: Toolbox) -> local.Sources:
    package = Path(__file__).resolve().parents[1]
    return local.Sources(
        debian=root,
        envoy=envoy_path(),
        rate_limit=toolbox.path("tokenworks-ratelimit"),
        store=toolbox.path("valkey-server"),
        pause=toolbox.path("tokenworks-pause"),
        dns=toolbox.path("coredns"),
        engine=package / "gateway" / "simulated_engine",
        engine_command=TEMPLATES / "images" / "trtllm-serve",
    )


INSTEAD_OF: Final = {
    local.ENGINE: tensorrt_llm.IMAGE_REPOSITORY,
    local.ENVOY: ENVOY.repository,
    local.RATE_LIMIT: RATE_LIMIT.repository,
    local.STORE: STORE.repository,
}
"""The image of production that each local one stands in for."""


def _tags(workspace: Workspace, environment: str) -> dict[str, str]:
    """The tag of what an image stands in for; the node's own programs have their versions."""
    engines = {model.engine_version for model in plan_environment(workspace, environment).models}
    versions = {tool.name: tool.version for tool in TOOLS}
    return {
        local.ENGINE: max(engines),
        local.ENVOY: ENVOY.tag,
        local.RATE_LIMIT: RATE_LIMIT.tag,
        local.STORE: STORE.tag,
        local.PAUSE: versions["tokenworks-pause"],
        local.DNS: versions["coredns"],
    }


def _stand_ins(made: Archive) -> StandIns:
    digests = {name.rpartition(":")[0]: digest for name, digest in made.digests.items()}
    return StandIns(
        images=tuple(
            StandIn(instead_of=there, repository=here, digest=digests[here])
            for here, there in INSTEAD_OF.items()
        )
    )


def join_node(session: Session, plan: Plan, pool: PoolPlan, ready: Ready) -> None:
    """Have the node run, in a cluster that runs."""
    node = local_node(session.workspace, plan.environment)
    claims = {
        f"{naming.ENGINES_NAMESPACE}/{model.weights.claim}": naming.ENGINE_USER
        for model in plan.models
    }
    node.prepare_volumes(claims)
    parts = _parts(session, plan, pool, ready)
    if renamed := {*node.names} - {parts.machine.name}:
        node.stop()
        forget_node(session, session.cluster(plan.environment).kubeconfig, renamed)
    node.ensure_running(parts, session.say)


def leave_node(session: Session, environment: str) -> None:
    """Remove the node that an environment had before its file wanted none, in a cluster that runs.

    Its object goes too, since a simulated node may take its name.
    """
    node = local_node(session.workspace, environment)
    if node.is_there:
        session.say("removing the real node, which the environment does not have any more")
        node.stop()  # its kubelet would come back
        forget_node(session, session.cluster(environment).kubeconfig, node.names)
        delete_node(session.workspace, environment)


def delete_node(workspace: Workspace, environment: str) -> None:
    """End and remove the node of an environment, if there is one, and what was made for it."""
    local_node(workspace, environment).delete()
    workspace.stand_ins(environment).unlink(missing_ok=True)


def real_names(environment: Environment) -> tuple[str, ...]:
    """The names of the real nodes that an environment asks for."""
    return tuple(naming.node_name(pool.name, 0) for pool in environment.node_pools if pool.real)


def forget_node(session: Session, kubeconfig: Path, names: Collection[str]) -> None:
    """Delete the objects of nodes that do not run, and of their pods, which nobody would end.

    Controllers would do so for pods without a node, most of a minute later.
    """
    kubectl = [str(session.toolbox.path("kubectl")), f"--kubeconfig={kubeconfig}", "delete"]
    for name in sorted(names):
        pods = ("pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}")
        for what in (("node", name, "--ignore-not-found"), (*pods, "--force", "--wait=false")):
            subprocess.run([*kubectl, *what], capture_output=True, check=False)


def local_node(workspace: Workspace, environment: str) -> LocalNode:
    """The node of an environment."""
    return LocalNode(environment, workspace.root)


def _parts(session: Session, plan: Plan, pool: PoolPlan, ready: Ready) -> Parts:
    ports = session.cluster(plan.environment).ports()
    programs = {name.removeprefix("cni-"): ready.toolbox.path(name) for name in NODE_TOOLS}
    references = {
        name.rpartition(":")[0]: by_digest(name, digest)
        for name, digest in ready.images.digests.items()
    }
    return Parts(
        machine=_machine(plan, pool),
        programs={**programs, "kubectl": session.toolbox.path("kubectl")},
        debian=ready.debian,
        images=ready.images.file,
        pause=references[local.PAUSE],
        dns=references[local.DNS],
        hub=session.workspace.stacks / "weights",
        ports=Ports(
            api=ports["kube_apiserver"], kwok=ports["kwok_controller"], gateway=ports["gateway"]
        ),
    )


def _machine(plan: Plan, pool: PoolPlan) -> Machine:
    """The node that the plan describes; the one real node is no GPU node alone, so untainted."""
    (node,) = gpu_nodes(plan, pool)
    labels = {
        name: value
        for name, value in node.labels.items()
        if not name.split("/")[0].endswith(_OF_KUBERNETES)
    }
    shape = pool.instance
    return Machine(
        name=node.name,
        labels={**labels, "node.kubernetes.io/instance-type": shape.name},
        processors=shape.vcpus,
        memory_mib=shape.host_memory_gib * 1024,
        gpus=int(node.capacity[naming.GPU_RESOURCE]),
        max_pods=shape.max_pods,
    )
