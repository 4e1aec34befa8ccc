"""Objects in a cluster, as kubectl lists them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tokenworks.errors import OperationError
from tokenworks.naming import ENVIRONMENT_LABEL

OURS = "app.kubernetes.io/part-of=tokenworks"


def our_objects(
    kubectl: Path, kubeconfig: Path, *, environment: str | None = None
) -> tuple[str, ...]:
    """``kind/name`` or ``kind/namespace/name`` of every object that carries our label, sorted.

    With an environment only its own count: a cluster that exists may hold others.
    """
    selector = OURS if environment is None else f"{OURS},{ENVIRONMENT_LABEL}={environment}"
    return tuple(sorted(spell(each) for each in objects(kubectl, kubeconfig, selector=selector)))


def objects(
    kubectl: Path, kubeconfig: Path, *, selector: str = "", without: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Every object of every kind that can be listed, with its server fields.

    Kinds named in ``without``, such as ``secrets``, are not even asked for.
    """
    kinds = _run(kubectl, kubeconfig, "api-resources", "--verbs=list,delete", "--output=name")
    wanted = ",".join(
        kind for kind in kinds.split() if not kind.startswith("events") and kind not in without
    )
    text = _run(
        kubectl,
        kubeconfig,
        "get",
        wanted,
        "--all-namespaces",
        f"--selector={selector}",
        "--output=json",
    )
    found = json.loads(text)["items"]
    assert isinstance(found, list)  # noqa: S101  (the shape of a List)
    return found


def cluster_id(kubectl: Path, kubeconfig: Path) -> str:
    """What tells a cluster from any other: the UID of its namespace kube-system."""
    answer = _run(
        kubectl,
        kubeconfig,
        "get",
        "namespace",
        "kube-system",
        "--output=jsonpath={.metadata.uid}",
    )
    return answer.strip()


def spell(found: dict[str, Any]) -> str:
    """An object's kind and name, with its namespace where it has one."""
    metadata = found["metadata"]
    place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{found['kind']}/{place}{metadata['name']}"


def _run(kubectl: Path, kubeconfig: Path, *arguments: str) -> str:
    done = subprocess.run(
        [kubectl, f"--kubeconfig={kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OperationError(
            f"kubectl {arguments[0]}",
            reason=done.stderr.strip() or f"exit code {done.returncode}",
            remedy="see whether the cluster runs with `tokenworks doctor`",
        )
    return done.stdout
