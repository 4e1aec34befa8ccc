"""The environment `local`, brought up once for all tests that only look at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.local.checkout import Checkout
from tokenworks.toolchain import Toolbox


@dataclass(frozen=True)
class Local:
    """A checkout whose environment `local` is up, and what `up` printed."""

    checkout: Checkout
    said: str


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory, toolbox: Toolbox) -> Iterator[Local]:
    checkout = Checkout(tmp_path_factory.mktemp("local"), toolbox)
    try:
        done = checkout.tokenworks("up", "local", "--yes")
        yield Local(checkout=checkout, said=done.stdout + done.stderr)
    finally:
        checkout.end()


@pytest.fixture
def checkout(local: Local) -> Iterator[Checkout]:
    """The same checkout; files that a test edits are restored after it."""
    yield local.checkout
    local.checkout.restore()


@pytest.fixture
def fresh(tmp_path: Path, toolbox: Toolbox) -> Iterator[Checkout]:
    """A checkout in which nothing is up yet; whatever a test brings up is ended after it."""
    checkout = Checkout(tmp_path, toolbox)
    try:
        yield checkout
    finally:
        checkout.end()
