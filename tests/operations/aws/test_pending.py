"""What a cut-off update was making in AWS is not forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tokenworks.errors import OperationError
from tokenworks.operations.stacks import refuse_unknown_in_aws


def pending(kind: str, type_: str) -> dict[str, Any]:
    urn = f"urn:pulumi:shop-cluster::tokenworks::{type_}::cluster"
    return {"type": kind, "resource": {"urn": urn, "type": type_}}


def test_a_creation_in_aws_stops_the_next_update_with_the_way_on() -> None:
    with pytest.raises(OperationError) as refused:
        refuse_unknown_in_aws("shop-cluster", [pending("creating", "aws:eks/cluster:Cluster")])
    assert "cut off while it made cluster" in str(refused.value)
    assert "tokenworks aws import-plan shop" in str(refused.value)


def test_objects_in_a_cluster_and_deletions_are_gone_on_with() -> None:
    refuse_unknown_in_aws("shop-serving", [pending("creating", "kubernetes:core/v1:Service")])
    refuse_unknown_in_aws("shop-cluster", [pending("deleting", "aws:eks/cluster:Cluster")])
