"""The whole graph of the example, as it was reviewed."""

from __future__ import annotations

from policy.aws import aws_type
from policy.resources import is_body
from tests.components.aws.graph import ROOT, graph
from tests.components.aws.seen import Seen
from tokenworks.plan.types import Plan

REVIEWED = ROOT / "tests" / "cases" / "aws" / "graph.txt"


def test_the_graph_is_the_one_that_was_reviewed(seen: Seen) -> None:
    remedy = "review the difference, then: python -m tests.components.aws.graph > the file"
    assert graph(seen.recordings) == REVIEWED.read_text("utf-8"), remedy


def test_a_second_run_registers_the_same_under_the_same_names(plan: Plan, seen: Seen) -> None:
    again = {one.urn: one.inputs for one in Seen.of(plan).all()}
    assert again == {one.urn: one.inputs for one in seen.all()}


def test_no_name_of_a_resource_is_left_to_chance(seen: Seen) -> None:
    """What AWS names by itself has another name after a rebuild."""
    fixed = {
        "ec2.SecurityGroup": "name",
        "ec2.LaunchTemplate": "name",
        "eks.Cluster": "name",
        "iam.Role": "name",
        "iam.RolePolicy": "name",
        "kms.Alias": "name",
        "s3.Bucket": "bucket",
        "s3.BucketObjectv2": "key",
        "cloudwatch.LogGroup": "name",
    }
    for kind, key in fixed.items():
        assert seen.kind(kind)
        assert all(one[key] for one in seen.inputs(kind)), kind


def test_everything_that_takes_tags_says_whose_it_is_and_which_program_made_it(seen: Seen) -> None:
    without = {
        # Neither AWS nor the provider lets these have any.
        "ec2.Route",
        "ec2.RouteTableAssociation",
        "eks.AccessPolicyAssociation",
        "iam.RolePolicy",
        "iam.RolePolicyAttachment",
        "kms.Alias",
        "s3.BucketLifecycleConfiguration",
        "s3.BucketOwnershipControls",
        "s3.BucketPolicy",
        "s3.BucketPublicAccessBlock",
        "s3.BucketServerSideEncryptionConfiguration",
        "s3.BucketVersioning",
    }
    for program, recording in seen.recordings.items():
        for one in recording.resources:
            if aws_type(one.type) in {"", *without}:
                continue
            tags = one.inputs["tags"]
            assert is_body(tags)
            assert tags["tokenworks:environment"] == "example-aws", one.name
            assert tags["tokenworks:program"] == program, one.name
