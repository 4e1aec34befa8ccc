"""A node's folder and what it remembers: when it starts again, and that nothing outlives it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.node.harness import ENVIRONMENT
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node import LocalNode, Machine, Parts, Ports
from tokenworks.local_node import node as module
from tokenworks.local_node.layout import NodeLayout
from tokenworks.local_node.machine import node_files
from tokenworks.local_node.node import made_from

PARTS = Parts(
    machine=Machine(name="here-0", labels={}, processors=4, memory_mib=1024, gpus=2, max_pods=9),
    programs={"kubelet": Path("/tools/kubelet")},
    debian=Path("/debian"),
    images=Path("/images.tar"),
    hub=Path("/hub"),
    pause="pause",
    dns="dns",
    ports=Ports(api=1, kwok=2, gateway=3),
)
CHANGED = {
    "machine": dataclasses.replace(PARTS.machine, gpus=4),
    "programs": {"kubelet": Path("/tools/other/kubelet")},
    "debian": Path("/other"),
    "images": Path("/other.tar"),
    "hub": Path("/other"),
    "pause": "other",
    "dns": "other",
    "ports": Ports(api=1, kwok=2, gateway=4),
}


@pytest.mark.parametrize("part", [field.name for field in dataclasses.fields(Parts)])
def test_another_part_of_any_kind_starts_a_node_again(part: str) -> None:
    other = dataclasses.replace(PARTS, **{part: CHANGED[part]})  # type: ignore[arg-type]
    assert made_from(other, b"ca") != made_from(PARTS, b"ca")


def test_a_cluster_that_was_made_again_starts_a_node_again() -> None:
    assert made_from(PARTS, b"another ca") != made_from(PARTS, b"ca") == made_from(PARTS, b"ca")


def test_another_file_of_its_own_starts_a_node_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_from(PARTS, b"ca")
    files = node_files()
    for name in files:
        changed = {**files, name: "other"}
        with monkeypatch.context() as patched:
            patched.setattr(module, "node_files", lambda changed=changed: changed)
            assert made_from(PARTS, b"ca") != before, name


@pytest.fixture
def layout(tmp_path: Path) -> NodeLayout:
    """What a node leaves that was killed with everything else."""
    found = NodeLayout(Layout.of(ENVIRONMENT, tmp_path))
    found.volumes.mkdir(parents=True)
    found.record.write_text('{"name": "here-0"}')
    found.proxy.touch()
    return found


def test_a_node_remembers_its_name_and_one_that_never_was_has_none(
    tmp_path: Path, layout: NodeLayout
) -> None:
    node = LocalNode(ENVIRONMENT, tmp_path)
    assert (node.is_there, node.names) == (True, ("here-0",))
    other = LocalNode("another", tmp_path)
    assert (other.is_there, other.names) == (False, ())


@pytest.mark.parametrize("step", ["pathlib.Path.unlink", "shutil.rmtree"])
def test_a_removal_that_was_cut_off_anywhere_is_finished_by_the_next(
    tmp_path: Path, layout: NodeLayout, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    node = LocalNode(ENVIRONMENT, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(step, cut)
        with pytest.raises(KeyboardInterrupt):
            node.delete()
    node.delete()
    assert not layout.root.exists()
    assert not layout.proxy.exists()
