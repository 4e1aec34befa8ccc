"""The environment `onenode`, up once for all tests here; where it cannot be, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.local.checkout import Checkout
from tests.node.harness import ENGINES, ENVIRONMENT, GATEWAY, Onenode
from tests.node.traces import snapshot
from tokenworks.operations.node import REAL_NODE_TOOLS, local_node, tried_lacks
from tokenworks.toolchain import Toolbox, ensure, showing
from tokenworks.workspace import Workspace

SMALL_TENANTS = """\
    - name: small
      api_keys: [{pulumi_secret: gateway-key-small}]
      requests_per_minute: 5
    - name: short
      api_keys: [{pulumi_secret: gateway-key-short}]
      models: [tiny-llama]
      tokens_per_minute: 200
      default_max_tokens: 40
"""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has the node, so that it is brought up once."""
    for item in items:
        if "tests/node/" in str(item.path):
            item.add_marker(pytest.mark.node)
            item.add_marker(pytest.mark.xdist_group("node"))


def _make_ready(workspace: Workspace) -> None:
    """Make what a machine's first `up` would make, which takes longer than a test may."""
    console = Console(stderr=True)
    missing = tried_lacks(workspace, ENVIRONMENT, console.print)
    if missing:
        reasons = "; ".join(f"{lack.what} ({lack.remedy})" for lack in missing)
        pytest.skip(f"Serving on a real node was NOT tested: {reasons}")
    with showing(console) as report:
        ensure(REAL_NODE_TOOLS, report)


@pytest.fixture(scope="session")
def onenode(tmp_path_factory: pytest.TempPathFactory, toolbox: Toolbox) -> Iterator[Onenode]:
    path = tmp_path_factory.mktemp("node")
    _make_ready(Workspace(path))
    checkout = Checkout(path, toolbox)
    before = snapshot(checkout.path)
    checkout.edit("stacks/onenode.yaml", "  fallbacks:", f"{SMALL_TENANTS}  fallbacks:")
    try:
        done = checkout.tokenworks("up", ENVIRONMENT, "--yes")
        yield Onenode(checkout=checkout, said=done.stdout, before=before)
    finally:
        local_node(Workspace(checkout.path), ENVIRONMENT).delete()
        checkout.end()


@pytest.fixture(scope="session")
def condemned(onenode: Onenode) -> dict[tuple[str, str], int]:
    """An engine that is ill, one that hangs and a gateway that does, with their restarts before.

    The kubelet takes a minute to be sure of each, and half of one to end it: time for tests that
    need none of them.
    """
    onenode.settle()
    (ill, hung), gateway = onenode.engines(), onenode.gateways()[0]
    pods = ((ENGINES, ill), (ENGINES, hung), (GATEWAY, gateway))
    before = {pod: onenode.restarts(*pod) for pod in pods}
    onenode.control(ill, "PATCH", "/settings", {"healthy": False})
    onenode.freeze(ENGINES, hung, "engine")
    onenode.freeze(GATEWAY, gateway, "envoy")
    return before
