from __future__ import annotations

import pytest

from tests.components.aws.seen import Seen, example
from tokenworks.plan.types import Plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    return example()


@pytest.fixture(scope="session")
def seen(plan: Plan) -> Seen:
    return Seen.of(plan)
