"""AWS environments that tests look at: the example, and one with everything that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.plan.types import Plan
from tokenworks.planning import resolve_loaded

ROOT = Path(__file__).resolve().parents[3]
LOCK = read_lock(ROOT / "stacks")
GOOD = ROOT / "tests" / "cases" / "environments" / "good"


def planned(name: str, folder: Path) -> Plan:
    return resolve_loaded(load_environment(name, folder), LOCK)


def aws_of(plan: Plan) -> AwsPlan:
    assert plan.aws is not None
    return plan.aws


@pytest.fixture(scope="session")
def example() -> AwsPlan:
    """FSx, AWS's images, a capacity block, no way to the internet."""
    return aws_of(planned("example-aws", ROOT / "stacks"))


@pytest.fixture(scope="session")
def other() -> AwsPlan:
    """EFS, images of ours, fabric adapters, a reservation, NAT."""
    return aws_of(planned("aws-images", GOOD))


Changed = Callable[..., AwsPlan]


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """The second environment with some texts of its file replaced."""

    def plan(*pairs: tuple[str, str]) -> AwsPlan:
        text = (GOOD / "aws-images.yaml").read_text("utf-8")
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        for name in ("weights", "access", "hosts"):
            link = tmp_path / name
            if not link.exists():
                link.symlink_to(GOOD / name)
        (tmp_path / "aws-images.yaml").write_text(text)
        return aws_of(planned("aws-images", tmp_path))

    return plan
