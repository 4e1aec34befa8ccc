"""A real node comes and goes with its environment, whatever the file said before."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.local.checkout import ROOT
from tokenworks.environment.load import load_environment
from tokenworks.local_cluster import LocalCluster
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node import LocalNode
from tokenworks.local_node.layout import NodeLayout
from tokenworks.operations import up
from tokenworks.operations.down import take_down
from tokenworks.operations.node import forget_node, leave_node, local_node, real_names
from tokenworks.operations.stacks import Changes
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

REAL, SIMULATED = "onenode", "local"
KUBECTL = """\
#!/bin/sh
shift
echo "$@" >> {folder}/asked
file="/proc/$(cat {folder}/pid 2>/dev/null || echo none)/cmdline"
if grep --quiet . "$file" 2>/dev/null; then echo "while it runs" >> {folder}/asked; fi
"""
FORGOTTEN = """\
delete node this-machine-0 --ignore-not-found
delete pods --all-namespaces --field-selector=spec.nodeName=this-machine-0 --force --wait=false"""


@dataclass
class FakeSession:
    """A checkout whose kubectl writes down what it is asked, and which has no stack."""

    workspace: Workspace
    said: list[str] = field(default_factory=list)
    stacks: Any = field(default_factory=lambda: SimpleNamespace(names=lambda: ()))

    def say(self, text: str) -> None:
        self.said.append(text)

    def cluster(self, environment: str, *, has_real_node: bool = False) -> LocalCluster:
        proxy = LocalNode(environment, self.workspace.root).proxy if has_real_node else None
        return LocalCluster(environment, self.workspace.root, node_proxy=proxy)

    @property
    def toolbox(self) -> Any:
        return SimpleNamespace(path=lambda name: self.workspace.root / name)

    @property
    def asked(self) -> str:
        file = self.workspace.root / "asked"
        return file.read_text().strip() if file.exists() else ""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path / "cache"))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(folder=tmp_path))
    kubectl.chmod(0o755)
    return FakeSession(Workspace(tmp_path))


def leave_behind(session: FakeSession, environment: str) -> list[Path]:
    """What a node has that was killed: its folder, its socket, the images made for it."""
    layout = NodeLayout(Layout.of(environment, session.workspace.root))
    layout.volumes.mkdir(parents=True)
    layout.record.write_text('{"name": "this-machine-0"}')
    images = session.workspace.stand_ins(environment)
    for file in (layout.proxy, images):
        file.touch()
    return [layout.root, layout.proxy, images]


@pytest.mark.parametrize("name", [REAL, SIMULATED])
def test_down_removes_a_node_that_the_file_asks_for_and_one_that_it_does_not(
    session: FakeSession, name: str
) -> None:
    left = leave_behind(session, name)
    environment = load_environment(name, ROOT / "stacks").environment
    take_down(session, name, environment)  # type: ignore[arg-type]
    assert not [path for path in left if path.exists()]


def test_up_removes_the_node_of_a_file_that_asks_for_none_any_more(session: FakeSession) -> None:
    left = leave_behind(session, SIMULATED)
    leave_node(session, SIMULATED)  # type: ignore[arg-type]
    assert not [path for path in left if path.exists()]
    assert session.asked == FORGOTTEN


def test_a_node_ends_before_the_cluster_forgets_it_or_it_would_come_back(
    session: FakeSession,
) -> None:
    leave_behind(session, SIMULATED)
    layout = NodeLayout(Layout.of(SIMULATED, session.workspace.root))
    layout.starter.parent.mkdir()
    layout.starter.symlink_to("/bin/sleep")
    process = subprocess.Popen([layout.starter, "60"])
    try:
        (session.workspace.root / "pid").write_text(str(process.pid))
        while local_node(session.workspace, SIMULATED).pid() is None:
            assert process.poll() is None
        leave_node(session, SIMULATED)  # type: ignore[arg-type]
    finally:
        process.kill()
        process.wait()
    assert session.asked == FORGOTTEN


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (REAL, ["cluster", "join", "serving"]),
        (SIMULATED, ["leave", "cluster", "serving"]),
    ],
)
def test_a_node_joins_once_simulated_ones_of_its_name_are_gone_and_leaves_before_they_come(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, name: str, expected: list[str]
) -> None:
    done: list[str] = []
    looks = ("refuse_another_place", "refuse_lost_settings", "refuse_missing_secrets")
    for step in (*looks, "_make_node_ready", "_ready_cluster", "_request"):
        monkeypatch.setattr(up, step, lambda *_: None)
    monkeypatch.setattr(up, "_make_node_ready", lambda *_: "ready")
    monkeypatch.setattr(up, "join_node", lambda *_: done.append("join"))
    monkeypatch.setattr(up, "leave_node", lambda *_: done.append("leave"))

    def update(stack: str, **_: object) -> Changes:
        done.append(stack.removeprefix(f"{name}-"))
        return Changes(same=1)

    session.workspace = Workspace(ROOT)
    session.stacks.update = update
    up.bring_up(session, plan_environment(session.workspace, name), None)  # type: ignore[arg-type]
    assert done == expected


def test_up_of_an_environment_without_a_node_does_and_says_nothing(session: FakeSession) -> None:
    leave_node(session, SIMULATED)  # type: ignore[arg-type]
    assert (session.asked, session.said) == ("", [])


def test_a_node_of_no_name_is_not_asked_for(session: FakeSession, tmp_path: Path) -> None:
    forget_node(session, tmp_path, ())  # type: ignore[arg-type]
    assert session.asked == ""


def test_a_node_has_the_name_that_its_pool_gives(session: FakeSession) -> None:
    asked = {name: load_environment(name, ROOT / "stacks") for name in (REAL, SIMULATED)}
    assert real_names(asked[REAL].environment) == ("this-machine-0",)
    assert real_names(asked[SIMULATED].environment) == ()
    assert LocalNode(REAL, session.workspace.root).names == ()
