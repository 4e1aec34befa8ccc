"""What is brought up where nobody named an environment: the real node only where it will start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local_node.test_preflight import GOOD
from tokenworks.errors import OperationError
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node.layout import NodeLayout
from tokenworks.local_node.preflight import Probed
from tokenworks.operations import node
from tokenworks.operations.choice import REAL, SIMULATED, chosen, likely
from tokenworks.operations.node import local_node
from tokenworks.workspace import Workspace

Said = list[str]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout on a machine that has everything that can be seen, with an empty cache."""
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(node, "probe", lambda *_, **__: GOOD)
    monkeypatch.setattr(node, "debian", made)
    monkeypatch.setattr(node, "missing_features", lambda _: ())
    return Workspace(tmp_path)


def made(_: object, say: object) -> Path:
    assert callable(say)
    say("making a Debian")
    return Path("/debian")


def never(*_: object) -> Path:
    raise AssertionError("this was not to be asked for")


def written(workspace: Workspace) -> str:
    return workspace.chosen.read_text().strip()


def test_the_kernel_is_tried_before_the_real_node_is_chosen(workspace: Workspace) -> None:
    said: Said = []
    assert chosen(workspace, said.append).environment == REAL == written(workspace)
    assert said == ["making a Debian"]


def test_a_kernel_that_cannot_leads_to_the_simulated_environment_at_the_first_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "missing_features", lambda _: ("rules on bridged packets",))
    choice = chosen(workspace, print)
    assert choice.environment == SIMULATED == written(workspace)
    assert "modprobe br_netfilter" in choice.because


def test_a_debian_that_cannot_be_had_leads_to_the_simulated_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Path:
        raise OperationError("a Debian", reason="no network", remedy="check the network")

    monkeypatch.setattr(node, "debian", refused)
    choice = chosen(workspace, print)
    assert choice.environment == SIMULATED == written(workspace)
    assert "no network (check the network)" in choice.because


def test_no_debian_is_made_where_the_machine_lacks_something_else(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "probe", lambda *_, **__: Probed(**{**vars(GOOD), "is_root": False}))
    monkeypatch.setattr(node, "debian", never)
    assert chosen(workspace, print).environment == SIMULATED


def test_a_question_makes_and_writes_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "debian", never)
    assert likely(workspace).environment == REAL
    assert not workspace.chosen.exists()


@pytest.fixture
def running(workspace: Workspace) -> Iterator[None]:
    """A process that was started as a node's first one."""
    layout = NodeLayout(Layout.of(REAL, workspace.root))
    layout.starter.parent.mkdir(parents=True)
    layout.starter.symlink_to("/bin/sleep")
    process = subprocess.Popen([layout.starter, "60"])
    try:
        while local_node(workspace, REAL).pid() != process.pid:  # its name comes a moment later
            assert process.poll() is None
        yield
    finally:
        process.kill()
        process.wait()


def test_a_node_that_runs_goes_on_whatever_the_machine_lacks_by_now(
    workspace: Workspace, running: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = Probed(**{**vars(GOOD), "memory_gib": 0.1})
    monkeypatch.setattr(node, "probe", lambda *_, **__: poor)
    assert likely(workspace).environment == REAL
    assert chosen(workspace, print).environment == REAL == written(workspace)


def test_what_a_node_took_of_the_disk_is_known_to_be_its_own(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def probe(*_: object, **given: object) -> Probed:
        asked.append(given["has_node"])
        return GOOD

    monkeypatch.setattr(node, "probe", probe)
    node.lacks(workspace, REAL)
    NodeLayout(Layout.of(REAL, workspace.root)).root.mkdir(parents=True)
    node.lacks(workspace, REAL)
    node.lacks(workspace, "another")
    assert asked == [False, True, False]
