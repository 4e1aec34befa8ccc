"""An AWS environment named `shop` in a checkout of its own, and the command line on it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.aws_fixtures import ACCOUNT
from tokenworks.cli import app
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = {
    "111122223333": ACCOUNT,
    "example-org-tokenworks-state": "shop-state",
    "alias/tokenworks-state": "alias/shop-state",
}
"""What the example environment says, and what the tests' account is."""


@dataclass(frozen=True)
class Shop:
    """A checkout whose environment is `shop`."""

    workspace: Workspace

    def run(self, *arguments: str, typed: str | None = None) -> Result:
        """What the command line does here; ``typed`` is what a person answers."""
        return CliRunner().invoke(app, list(arguments), input=typed)


def make_shop(root: Path) -> Shop:
    """The project's locks and weights with one environment on AWS."""
    shutil.copytree(ROOT / "stacks", root / "stacks")
    text = (root / "stacks/example-aws.yaml").read_text("utf-8")
    for theirs, ours in EXAMPLE.items():
        assert theirs in text, f"the example says nothing of {theirs}"
        text = text.replace(theirs, ours)
    (root / "stacks/shop.yaml").write_text(text, "utf-8")
    shutil.copy(ROOT / "Pulumi.yaml", root / "Pulumi.yaml")
    return Shop(Workspace(root))
