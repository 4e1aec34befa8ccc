"""What programs of an AWS environment registered, asked by name and by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from policy.aws import aws_type
from tests.components.aws.graph import ENVIRONMENT, ROOT, edges
from tokenworks.check.recording import RecordedResource, Recording
from tokenworks.operations.record import record_environment
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

WORKSPACE = Workspace(ROOT)


def example() -> Plan:
    return plan_environment(WORKSPACE, ENVIRONMENT)


def with_aws(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, aws=replace(cloud(plan), **changes))


def cloud(plan: Plan) -> AwsPlan:
    assert plan.aws is not None
    return plan.aws


@dataclass(frozen=True)
class Seen:
    """Recordings of every program, by program."""

    recordings: Mapping[str, Recording]

    @classmethod
    def of(cls, plan: Plan) -> Seen:
        return cls(record_environment(WORKSPACE, plan))

    def all(self) -> Iterator[RecordedResource]:
        for recording in self.recordings.values():
            yield from recording.resources

    def kind(self, kind: str) -> list[RecordedResource]:
        """Resources by service and kind, ``ec2.Subnet``."""
        return [one for one in self.all() if aws_type(one.type) == kind]

    def inputs(self, kind: str) -> list[Any]:
        return [one.inputs for one in self.kind(kind)]

    def named(self, name: str) -> RecordedResource:
        (found,) = [one for one in self.all() if one.name == name and one.custom]
        return found

    def waits_for(self, program: str, one: str) -> set[str]:
        """Names of everything that must be there before a resource, and until it is gone."""
        resources = self.recordings[program].resources
        (urn,) = [each.urn for each in resources if each.name == one and each.custom]
        return {name.rpartition("::")[2] for name in edges(resources)[urn]}
