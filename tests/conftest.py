"""Fixtures that every folder of tests may use."""

from hypothesis import settings

from tests.cluster_fixtures import toolbox

__all__ = ["toolbox"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
