"""What a crash and an end of an environment with a real node leave. These tests come last."""

from __future__ import annotations

from tests.node.harness import ENVIRONMENT, Onenode
from tests.node.release import NAME
from tests.node.traces import left, snapshot


def test_up_after_the_node_crashed_serves_again_and_changes_nothing(onenode: Onenode) -> None:
    onenode.crash()
    done = onenode.checkout.tokenworks("up", ENVIRONMENT, "--yes")
    assert "starting the node" in done.stderr
    assert done.stderr.count("nothing changed") == 2, done.stderr
    onenode.until(onenode.answers, "it serves again")


def test_down_leaves_no_mount_interface_group_setting_process_or_file(onenode: Onenode) -> None:
    onenode.checkout.tokenworks("down", ENVIRONMENT, "--yes")
    assert_nothing_is_left(onenode)


def test_up_after_down_serves_again(onenode: Onenode) -> None:
    onenode.checkout.tokenworks("up", ENVIRONMENT, "--yes")
    assert onenode.ask().status == 200


def test_down_after_the_node_crashed_leaves_nothing_either(onenode: Onenode) -> None:
    onenode.crash()
    onenode.checkout.tokenworks("down", ENVIRONMENT, "--yes")
    assert_nothing_is_left(onenode)


def assert_nothing_is_left(onenode: Onenode) -> None:
    checkout = onenode.checkout
    found = left(onenode.before, snapshot(checkout.path))
    assert {kind: traces for kind, traces in found.items() if traces} == {}
    assert checkout.processes() == []
    folder = checkout.path / ".tokenworks" / ENVIRONMENT
    assert sorted(each.name for each in folder.iterdir()) == ["keys", "tls"]
    released = {f"?? stacks/weights/{NAME}.json", f"?? stacks/weights/{NAME}/"}
    assert {*checkout.git_status().splitlines()} - released == {" M stacks/onenode.yaml"}
