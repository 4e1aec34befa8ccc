"""The environment `onenode`, up once for all tests here; where it cannot be, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local.checkout import ROOT, Checkout
from tests.node.harness import ENGINES, ENVIRONMENT, GATEWAY, Onenode
from tests.node.traces import snapshot
from tokenworks.operations.node import lacks, local_node
from tokenworks.toolchain import Toolbox
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


@pytest.fixture(scope="session")
def onenode(tmp_path_factory: pytest.TempPathFactory, toolbox: Toolbox) -> Iterator[Onenode]:
    missing = lacks(Workspace(ROOT))
    if missing:
        reasons = "; ".join(f"{lack.what} ({lack.remedy})" for lack in missing)
        pytest.skip(f"Serving on a real node was NOT tested: {reasons}")
    checkout = Checkout(tmp_path_factory.mktemp("node"), toolbox)
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
