"""Changes under constant load: nobody who had no answer yet loses one."""

from __future__ import annotations

from tests.node.harness import ENGINES, GATEWAY, MODEL, Onenode
from tests.node.load import under_load


def test_engines_are_replaced_without_a_lost_request(onenode: Onenode) -> None:
    onenode.settle()
    before = onenode.engines()
    with under_load(onenode) as load:
        onenode.kubectl("rollout", "restart", "-n", ENGINES, f"deploy/{MODEL}")
        onenode.settle()
        onenode.until(lambda: not set(before) & set(onenode.engines()), "old pods are leaving")
        answered = load.answered
        onenode.until(lambda: load.answered > answered + 20, "the new ones answer")
    assert not load.lost
    assert (load.cut, load.silent) == (0, 0)


def test_gateways_are_replaced_without_a_lost_request(onenode: Onenode) -> None:
    with under_load(onenode) as load:
        onenode.kubectl("rollout", "restart", "-n", GATEWAY, "deploy/gateway")
        onenode.settle()
        onenode.until(lambda: len(onenode.gateways()) == 2, "two left")
    assert not load.lost
    assert load.silent == 0
    assert load.answered > 20


def test_a_node_that_is_drained_keeps_one_pod_of_each_until_others_can_run(
    onenode: Onenode,
) -> None:
    onenode.settle()
    arguments = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10s")
    try:
        with under_load(onenode) as load:
            only = f"--pod-selector=tokenworks.dev/model={MODEL}"
            done = onenode.try_kubectl("drain", "this-machine-0", only, *arguments)
        assert done.returncode != 0
        assert "disruption budget" in done.stderr
        assert not load.lost
        assert load.answered > 20
    finally:
        onenode.kubectl("uncordon", "this-machine-0")
    onenode.settle()
