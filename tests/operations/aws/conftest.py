"""The moto server, the account of each test, and a checkout with an environment on AWS."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.aws_fixtures import account, client, cloud, moto_url, refused
from tests.operations.aws.shop import ROOT, Shop, make_shop
from tokenworks.operations.aws_state import cloud_and_backend
from tokenworks.operations.session import Session, open_session
from tokenworks.toolchain import Toolbox

__all__ = ["account", "cloud", "moto_url", "refused"]

PROGRAM = """
import pulumi

class Thing(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("tests:aws:Thing", name)
        self.register_outputs({})

for name in pulumi.Config().require_object("names"):
    Thing(name)
pulumi.export("secret", pulumi.Output.secret("never in the open"))
"""
"""A program that needs no provider."""


@pytest.fixture
def shop(tmp_path: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The environment `shop`, with its checkout as the working directory."""
    monkeypatch.chdir(tmp_path)
    return make_shop(tmp_path)


@pytest.fixture
def shop_with_state(shop: Shop) -> Shop:
    """The environment `shop` with the bucket and the key of its state."""
    assert shop.run("aws", "bootstrap", "shop", "--yes").exit_code == 0
    # Moto denies whatever a policy denies without reading its condition, here that of plain HTTP.
    client("s3").delete_bucket_policy(Bucket="shop-state")
    return shop


@pytest.fixture
def session(shop_with_state: Shop, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose stacks are in the bucket, each of a program of components alone."""
    root = shop_with_state.workspace.root
    (root / "__main__.py").write_text(PROGRAM, "utf-8")
    shutil.copytree(ROOT / "policy", root / "policy")
    monkeypatch.setenv("PATH", os.environ["PATH"])  # a session prepends its tools
    _, backend = cloud_and_backend(shop_with_state.workspace, "shop")
    return open_session(shop_with_state.workspace, Console(file=io.StringIO()), backend)
