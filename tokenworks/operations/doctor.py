"""What is there, what is wrong, and what to do about it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworks.environment.load import load_environment
from tokenworks.errors import OperationError, TokenworksError
from tokenworks.local_cluster import ClusterStatus, LocalCluster, State
from tokenworks.naming import ENVIRONMENT_LABEL, GPU_RESOURCE
from tokenworks.operations.backends import Backend, backend_of
from tokenworks.operations.by_hand import write_kubeconfig
from tokenworks.operations.node import lacks, local_node
from tokenworks.operations.objects import objects
from tokenworks.plan.types import Plan
from tokenworks.toolchain import State as ToolState
from tokenworks.toolchain import ToolStatus
from tokenworks.workspace import PROGRAMS, Workspace, stack_name


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at: whether it is well, what was seen, what to do if not.

    ``well`` is None where it could not be told, which is never counted as good.
    """

    subject: str
    well: bool | None
    seen: str
    remedy: str = ""


def examine(workspace: Workspace, plan: Plan, tools: tuple[ToolStatus, ...]) -> list[Finding]:
    """Everything about one environment, from tools to pods, without changing anything."""
    cluster, kubeconfig = _any_cluster(workspace, plan)
    findings = [*_tools(tools), *_account(workspace, plan), cluster, *_real_node(workspace, plan)]
    findings += _states(workspace, plan)
    kubectl = next((tool.path for tool in tools if tool.name == "kubectl"), None)
    if cluster.well and kubectl:
        findings += _workloads(plan, kubectl, kubeconfig)
    else:
        reason = "the cluster does not run" if kubectl else "there is no kubectl"
        findings.append(Finding(subject="workloads", well=None, seen=f"not looked at: {reason}"))
    return findings


def _any_cluster(workspace: Workspace, plan: Plan) -> tuple[Finding, Path]:
    """What is known of the environment's cluster, and its credentials."""
    if plan.platform == "simulated":
        local = LocalCluster(plan.environment, workspace.root)
        return _cluster(plan.environment, local.status()), local.kubeconfig
    given = plan.cluster.kubeconfig if plan.cluster else None
    kubeconfig = workspace.kubeconfig(plan.environment, given)
    write = f"`{write_kubeconfig(workspace, plan.environment)}` writes them"
    remedy = "put the cluster's kubeconfig there" if given else write
    there = kubeconfig.is_file()
    seen = f"credentials {'in' if there else 'missing at'} {kubeconfig}"
    remedy = "" if there else remedy
    return Finding(subject="cluster", well=there, seen=seen, remedy=remedy), kubeconfig


def _real_node(workspace: Workspace, plan: Plan) -> list[Finding]:
    """The real node, where there is to be one: whether it runs, or why it cannot."""
    if plan.real_pool is None:
        return []
    pid = local_node(workspace, plan.environment).pid()
    missing = lacks(workspace, plan.environment)
    if pid is None and missing:
        seen = "; ".join(lack.what for lack in missing)
        remedy = "; ".join(dict.fromkeys(lack.remedy for lack in missing))
        return [Finding(subject="real node", well=False, seen=seen, remedy=remedy)]
    seen = "does not run" if pid is None else f"runs as process {pid}"
    remedy = f"tokenworks up {plan.environment}" if pid is None else ""
    return [Finding(subject="real node", well=pid is not None, seen=seen, remedy=remedy)]


def _tools(tools: tuple[ToolStatus, ...]) -> list[Finding]:
    return [
        Finding(
            subject=tool.name,
            well=tool.state is not ToolState.MISSING,
            seen=f"{tool.state.value}: {tool.because}",
            remedy="`tokenworks up` builds it" if tool.state is ToolState.MISSING else "",
        )
        for tool in tools
    ]


def _cluster(environment: str, status: ClusterStatus) -> Finding:
    unwell = [f"{c.name} {c.because} (log: {c.log})" for c in status.components if not c.well]
    well = status.state is State.RUNNING
    seen = status.state.value
    if status.state is State.DEGRADED:
        seen += f": {'; '.join(unwell)}"
    return Finding(
        subject="cluster",
        well=well,
        seen=seen,
        remedy="" if well else f"`tokenworks up {environment}` starts it, with the data it has",
    )


def _account(workspace: Workspace, plan: Plan) -> list[Finding]:
    if plan.platform != "aws":
        return []
    from tokenworks.operations.aws_doctor import examine_account

    return examine_account(workspace, plan)


def _states(workspace: Workspace, plan: Plan) -> list[Finding]:
    """Each stack's state, and on AWS first the account that it is in."""
    environment = load_environment(plan.environment, workspace.stacks).environment
    subject = f"state of {plan.environment}"
    try:
        backend = backend_of(workspace, plan.environment, environment)
    except OperationError as error:
        return [Finding(subject=subject, well=None, seen=error.reason, remedy=error.remedy)]
    return [_stack(backend, plan.environment, program) for program in PROGRAMS[plan.platform]]


def _stack(backend: Backend, environment: str, program: str) -> Finding:
    name, up = stack_name(environment, program), f"`tokenworks up {environment}`"
    latest = backend.deployment(name)
    pending, count = len(latest.get("pending_operations") or []), len(latest.get("resources") or [])
    if pending:
        seen = f"an update was cut off with {pending} operations under way"
        return Finding(subject=name, well=False, seen=seen, remedy=f"{up} finishes it")
    if not count:
        return Finding(
            subject=name, well=False, seen="has no resources", remedy=f"{up} creates them"
        )
    return Finding(subject=name, well=True, seen=f"{count} resources")


def _workloads(plan: Plan, kubectl: Path, kubeconfig: Path) -> list[Finding]:
    try:
        found = objects(kubectl, kubeconfig)
    except (TokenworksError, subprocess.SubprocessError) as error:
        return [Finding(subject="workloads", well=None, seen=str(error))]
    return [
        *(_node(each) for each in found if each["kind"] == "Node"),
        *(_deployment(each) for each in found if _is_ours(plan, each, "Deployment")),
        *(_job(each) for each in found if _is_ours(plan, each, "Job")),
        *(_pod(each) for each in found if each["kind"] == "Pod" and _pod_is_unwell(each)),
    ]


def _is_ours(plan: Plan, found: dict[str, Any], kind: str) -> bool:
    labels = found["metadata"].get("labels", {})
    ours: bool = labels.get(ENVIRONMENT_LABEL) == plan.environment
    return ours and bool(found["kind"] == kind)


def _node(node: dict[str, Any]) -> Finding:
    ready = _condition(node, "Ready")
    gpus = node["status"].get("allocatable", {}).get(GPU_RESOURCE, "0")
    return Finding(
        subject=f"node {node['metadata']['name']}",
        well=ready == "True",
        seen=f"{gpus} GPUs, ready: {ready}",
        remedy="" if ready == "True" else "kubectl describe node says why",
    )


def _deployment(deployment: dict[str, Any]) -> Finding:
    wanted = deployment["spec"]["replicas"]
    ready = deployment["status"].get("readyReplicas", 0)
    metadata = deployment["metadata"]
    return Finding(
        subject=f"deployment {metadata['name']}",
        well=ready == wanted,
        seen=f"{ready} of {wanted} replicas ready",
        remedy=""
        if ready == wanted
        else f"kubectl --namespace {metadata['namespace']} describe pods says why",
    )


def _job(job: dict[str, Any]) -> Finding:
    """A Job of weights: done, given up, or still at it, which is neither good nor bad."""
    metadata = job["metadata"]
    failed = [
        f"failed: {c.get('message') or c.get('reason', 'no reason given')}"
        for c in job["status"].get("conditions", [])
        if c["type"] == "Failed" and c["status"] == "True"
    ]
    done = job["status"].get("succeeded", 0) > 0
    logs = f"kubectl --namespace {metadata['namespace']} logs job/{metadata['name']}"
    return Finding(
        subject=f"job {metadata['name']}",
        well=True if done else (False if failed else None),
        seen="done" if done else (failed[0] if failed else "is not done yet"),
        remedy="" if done else f"{logs} says {'why' if failed else 'how far it is'}",
    )


def _pod_is_unwell(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") not in ("Running", "Succeeded")


def _pod(pod: dict[str, Any]) -> Finding:
    scheduled = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
    message = next((c.get("message", "") for c in scheduled if c["status"] != "True"), "")
    return Finding(
        subject=f"pod {pod['metadata']['name']}",
        well=False,
        seen=f"{pod['status'].get('phase')} {message}".strip(),
        remedy="kubectl describe pod says more",
    )


def _condition(found: dict[str, Any], kind: str) -> str:
    conditions = found["status"].get("conditions", [])
    return next((c["status"] for c in conditions if c["type"] == kind), "Unknown")
