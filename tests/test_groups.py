"""Tests that share an environment run on one worker, so that it is brought up once."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("groups")
def test_workers_know_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells it by the test's name; a pytest that names tests otherwise breaks it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("groups were NOT tested: there is one worker, so all tests are in one group")
    assert request.node.nodeid.endswith("@groups")
