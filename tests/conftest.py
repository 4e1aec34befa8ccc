"""Fixtures that every folder of tests may use."""

from tests.cluster_fixtures import toolbox

__all__ = ["toolbox"]
