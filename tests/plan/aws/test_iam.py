"""Policy documents: of the grammar, without a wildcard that could be narrower, alike every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.plan.aws.conftest import ROOT, Changed
from tests.plan.aws.schemas import problems
from tokenworks.plan.aws.documents import NO_RESOURCE, WHOLE, lists
from tokenworks.plan.aws.types import AwsPlan, RolePlan

GRAMMAR = json.loads((ROOT / "tests" / "cases" / "aws" / "policy.schema.json").read_text("utf-8"))
Document = dict[str, Any]


def roles(plan: AwsPlan) -> list[RolePlan]:
    cluster = plan.cluster
    own = [cluster.role, cluster.node_role, plan.network.flow_log_role, plan.builder_role]
    return [*own, *(pod.role for pod in cluster.pod_roles)]


def role_policies(plan: AwsPlan) -> Iterator[tuple[str, Document]]:
    for role in roles(plan):
        for name, document in role.policies.items():
            yield f"{role.name}/{name}", cast("Document", document)


def resource_policies(plan: AwsPlan) -> Iterator[tuple[str, Document]]:
    for key in plan.storage.keys:
        yield f"key {key.name}", cast("Document", key.policy)
    yield "weights bucket", cast("Document", plan.storage.bucket_policy)
    yield "transfer bucket", cast("Document", plan.transfer_bucket_policy)
    for endpoint in plan.network.endpoints:
        yield f"endpoint {endpoint.service}", cast("Document", endpoint.policy)


def statements(document: Document) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", document["Statement"])


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.fixture(params=["example", "other"])
def plan(request: pytest.FixtureRequest) -> AwsPlan:
    return cast("AwsPlan", request.getfixturevalue(request.param))


def test_every_document_is_of_the_grammar(plan: AwsPlan) -> None:
    trusts = [(f"{role.name}/trust", cast("Document", role.trust)) for role in roles(plan)]
    for name, document in (*role_policies(plan), *resource_policies(plan), *trusts):
        assert not problems(document, GRAMMAR), name


def test_no_role_may_do_everything_of_anything(plan: AwsPlan) -> None:
    for name, document in role_policies(plan):
        for statement in statements(document):
            assert statement["Effect"] == "Allow"
            assert not [action for action in listed(statement["Action"]) if "*" in action], name


def test_only_what_takes_no_resource_may_be_done_anywhere(plan: AwsPlan) -> None:
    for name, document in role_policies(plan):
        for statement in statements(document):
            if "*" in listed(statement["Resource"]):
                assert set(listed(statement["Action"])) <= set(NO_RESOURCE), name


def test_what_takes_no_resource_only_lists() -> None:
    for action in NO_RESOURCE:
        assert action.partition(":")[2].startswith(("Describe", "Get")), action


def test_every_other_wildcard_is_in_a_place_that_has_a_reason(plan: AwsPlan) -> None:
    found = set()
    for name, document in resource_policies(plan):
        for statement in statements(document):
            if "*" not in listed(statement["Resource"]) and "*" not in str(statement["Action"]):
                continue
            refusal = statement["Effect"] == "Deny"
            place = "refusal" if refusal else name.partition(" ")[0]
            assert place in WHOLE, name
            if place == "key":
                assert "*" not in str(statement["Action"])
            found.add(place)
    assert found == set(WHOLE)


def test_an_action_that_can_be_narrowed_is_never_allowed_anywhere() -> None:
    with pytest.raises(ValueError, match="ec2:TerminateInstances can be narrowed"):
        lists("Look", ["ec2:DescribeTags", "ec2:TerminateInstances"])


def test_every_resource_is_of_this_account_and_region(plan: AwsPlan) -> None:
    for name, document in role_policies(plan):
        for statement in statements(document):
            for arn in listed(statement["Resource"]):
                if arn == "*" or arn.startswith(("${", "arn:aws:s3:::")):
                    continue
                _, _, service, region, account, _ = arn.split(":", 5)
                assert account == plan.account, name
                assert region == ("" if service == "iam" else plan.region), name


def test_what_may_be_changed_is_marked_as_this_environment_s(plan: AwsPlan) -> None:
    """Of what others may have in the account as well, only what carries our tags or name."""
    shared = ("ec2:", "elasticloadbalancing:", "kms:")
    unmarked = {"MakeInterfacesInGroups", "TagNewInterfaces", "GroupsOfNetwork"}
    for name, document in role_policies(plan):
        for statement in statements(document):
            acts = [action for action in listed(statement["Action"]) if action.startswith(shared)]
            if set(acts) <= set(NO_RESOURCE) or statement["Sid"] in unmarked:
                continue
            spelt = json.dumps(statement.get("Condition", {}))
            own = (f'"{plan.tags["tokenworks:environment"]}"', plan.cluster.name)
            assert any(mark in spelt for mark in own), (name, statement["Sid"])


def test_pods_of_one_service_account_of_one_cluster_take_a_role(plan: AwsPlan) -> None:
    for pod in plan.cluster.pod_roles:
        (statement,) = statements(cast("Document", pod.role.trust))
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
        assert statement["Condition"]["StringEquals"] == {
            "aws:SourceAccount": plan.account,
            "aws:RequestTag/eks-cluster-name": plan.cluster.name,
            "aws:RequestTag/kubernetes-namespace": pod.namespace,
            "aws:RequestTag/kubernetes-service-account": pod.service_account,
        }


def test_documents_are_no_longer_than_aws_takes(plan: AwsPlan) -> None:
    """docs.aws.amazon.com/IAM, reference_iam-quotas; KMS resource quotas; S3 and VPC limits."""

    def size(document: object) -> int:
        return len(json.dumps(document, separators=(",", ":")))

    for role in roles(plan):
        assert sum(size(document) for document in role.policies.values()) <= 10_240
        assert size(role.trust) <= 2_048
    for name, document in resource_policies(plan):
        assert size(document) <= 20_480, name


def test_nobody_is_trusted_but_a_service(plan: AwsPlan) -> None:
    for role in roles(plan):
        for statement in statements(cast("Document", role.trust)):
            assert set(statement["Principal"]) == {"Service"}


def test_nodes_may_not_do_what_pods_of_theirs_do(plan: AwsPlan) -> None:
    node = plan.cluster.node_role
    names = {arn.rpartition("/")[2] for arn in node.managed_policies}
    assert names == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    }
    assert not node.policies


def test_roles_are_named_by_their_environment_and_short_enough(changed: Changed) -> None:
    plan = changed()
    for role in roles(plan):
        assert role.name.startswith(plan.cluster.name)
        assert len(role.name) - len(plan.cluster.name) <= len("-weights-csi")
        assert len("tokenworks-") + 40 + len("-weights-csi") <= 64


def test_nobody_reads_a_bucket_without_tls(plan: AwsPlan) -> None:
    for policy in (plan.storage.bucket_policy, plan.transfer_bucket_policy):
        refusal = statements(cast("Document", policy))[0]
        assert (refusal["Effect"], refusal["Principal"]) == ("Deny", "*")
        assert refusal["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_weights_are_written_by_the_deployer_alone(plan: AwsPlan) -> None:
    _, readers, writers = statements(cast("Document", plan.storage.bucket_policy))
    root = f"arn:aws:iam::{plan.account}:root"
    may_write = writers["Condition"]["StringNotLike"]["aws:PrincipalArn"]
    assert may_write == sorted([root, plan.cluster.deployer_role])
    may_read = readers["Condition"]["StringNotLike"]["aws:PrincipalArn"]
    lustre = plan.storage.file_system.kind == "fsx-lustre"
    followers = [arn for arn in may_read if arn not in may_write]
    assert len(followers) == lustre
    assert all("lustre.fsx" in arn for arn in followers)
    assert not [arn for arn in may_read if arn in ("*", f"arn:aws:iam::{plan.account}:*")]


def test_no_pod_but_those_of_the_cluster_itself_may_call_aws(plan: AwsPlan) -> None:
    """Weights are fetched, compared and read without any right in the account."""
    lustre = plan.storage.file_system.kind == "fsx-lustre"
    driver = "fsx-csi-controller-sa" if lustre else "efs-csi-controller-sa"
    accounts = {(pod.namespace, pod.service_account) for pod in plan.cluster.pod_roles}
    names = ("aws-node", driver, "aws-load-balancer-controller")
    assert accounts == {("kube-system", name) for name in names}


def test_bucket_policies_only_refuse(plan: AwsPlan) -> None:
    for policy in (plan.storage.bucket_policy, plan.transfer_bucket_policy):
        assert {one["Effect"] for one in statements(cast("Document", policy))} == {"Deny"}


def test_a_key_is_used_through_services_of_its_own_data(plan: AwsPlan) -> None:
    for key in plan.storage.keys:
        for statement in statements(cast("Document", key.policy)):
            assert not [action for action in listed(statement["Action"]) if "*" in action]
            if statement["Sid"] in ("UseByServices", "GrantToServices"):
                equals = statement["Condition"]["StringEquals"]
                assert equals["kms:CallerAccount"] == plan.account
                assert all(
                    name.endswith(f".{plan.region}.amazonaws.com")
                    for name in listed(equals["kms:ViaService"])
                )
            if "kms:CreateGrant" in listed(statement["Action"]):
                assert statement["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}


def test_lustre_may_decrypt_what_it_follows_and_nobody_else_may_without_iam(
    example: AwsPlan, other: AwsPlan
) -> None:
    """Its role has no rights to keys by itself: FSx user guide, s3-server-side-encryption."""

    def of_anybody(plan: AwsPlan) -> list[dict[str, Any]]:
        return [
            statement
            for key in plan.storage.keys
            for statement in statements(cast("Document", key.policy))
            if statement["Principal"] in ("*", {"AWS": "*"})
        ]

    (found,) = of_anybody(example)
    assert found["Action"] == ["kms:Decrypt", "kms:DescribeKey"]
    equals = found["Condition"]["StringEquals"]
    assert equals == {
        "kms:CallerAccount": example.account,
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
    }
    (role,) = found["Condition"]["ArnLike"].values()
    assert role.startswith(f"arn:aws:iam::{example.account}:role/aws-service-role/s3.data-source")
    assert of_anybody(other) == []


def test_kinds_of_data_have_keys_of_their_own(plan: AwsPlan) -> None:
    assert [key.name for key in plan.storage.keys] == ["weights", "secrets", "nodes", "logs"]
    assert len({key.alias for key in plan.storage.keys}) == 4


def test_lists_are_sorted_and_a_single_entry_stands_alone(plan: AwsPlan) -> None:
    """Another order would be a change at every update (pulumi-aws#1338)."""
    for name, document in role_policies(plan):
        for statement in statements(document):
            for value in (statement["Action"], statement["Resource"]):
                if isinstance(value, list):
                    assert value == sorted(set(value)), name
                    assert len(value) > 1, name


def test_late_values_are_those_that_programs_have(plan: AwsPlan) -> None:
    asked = {
        part.partition("}")[0]
        for _, document in role_policies(plan)
        for part in json.dumps(document).split("${")[1:]
    }
    assert asked == {"flow_log_group_arn"}
