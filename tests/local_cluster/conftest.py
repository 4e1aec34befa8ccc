"""A cluster that tests share, clusters of their own, and what a crash is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster_fixtures import Kubectl, clusters, toolbox
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_cluster.layout import COMPONENTS, Layout
from tokenworks.toolchain import Toolbox

__all__ = ["clusters", "toolbox"]

NAMES = [component.name for component in COMPONENTS]


def quiet(_: str) -> None:
    """Nobody is waiting for news."""


@pytest.fixture(scope="session")
def shared_cluster(
    toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    cluster = LocalCluster("shared", tmp_path_factory.mktemp("shared"))
    yield cluster
    cluster.delete()


@pytest.fixture
def shared(shared_cluster: LocalCluster, toolbox: Toolbox) -> LocalCluster:
    """A cluster that runs, whatever the last test did to it; its objects stay."""
    shared_cluster.ensure_running(toolbox, quiet)
    return shared_cluster


@pytest.fixture
def cluster(toolbox: Toolbox, tmp_path: Path, clusters: list[LocalCluster]) -> LocalCluster:
    """A new cluster that runs."""
    made = LocalCluster("local", tmp_path)
    clusters.append(made)
    made.ensure_running(toolbox, quiet)
    return made


def layout_of(cluster: LocalCluster) -> Layout:
    """Where a cluster keeps what."""
    home = cluster.kubeconfig.parent
    return Layout.of(home.name, home.parents[1])


def pids(cluster: LocalCluster) -> dict[str, int]:
    return {each.name: each.pid for each in cluster.status().components if each.pid}


def kill(cluster: LocalCluster, *names: str) -> None:
    """End components as a crash does, and wait until they are gone."""
    found = pids(cluster)
    for name in names:
        os.kill(found[name], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while set(names) & set(pids(cluster)) and time.monotonic() < deadline:
        time.sleep(0.02)


def remember(kubectl: Kubectl) -> None:
    """Store something; it may be there already."""
    made = kubectl(
        "create", "configmap", "kept", "--from-literal=a=b", "--dry-run=client", "-oyaml"
    )
    kubectl("apply", "-f", "-", given=made)


def remembers(kubectl: Kubectl) -> bool:
    return kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
