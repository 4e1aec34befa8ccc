"""What is left once an environment with a real node is down: nothing. These tests come last."""

from __future__ import annotations

from tests.node.harness import ENVIRONMENT, Onenode, snapshot


def test_a_second_up_changes_nothing(onenode: Onenode) -> None:
    done = onenode.checkout.tokenworks("up", ENVIRONMENT, "--yes")
    assert "starting the node" not in done.stderr
    assert done.stderr.count("nothing changed") == 2, done.stderr


def test_down_leaves_no_mount_interface_group_process_or_file(onenode: Onenode) -> None:
    onenode.checkout.tokenworks("down", ENVIRONMENT, "--yes")
    after = snapshot(onenode.checkout.path)
    assert {name: after[name] - known for name, known in onenode.before.items()} == {
        name: frozenset() for name in onenode.before
    }
    assert onenode.checkout.processes() == []
    folder = onenode.checkout.path / ".tokenworks" / ENVIRONMENT
    assert sorted(each.name for each in folder.iterdir()) == ["keys", "tls"]
    assert onenode.checkout.git_status().rstrip() == " M stacks/onenode.yaml"


def test_up_after_down_serves_again(onenode: Onenode) -> None:
    onenode.checkout.tokenworks("up", ENVIRONMENT, "--yes")
    assert onenode.ask().status == 200
