"""What a change of the plan does to what is there: updated in place, rolled, or made anew.

``FORCE_NEW`` are inputs that replace their resource when they change, as the provider's own source
has it: hashicorp/terraform-provider-aws ``internal/service/{eks,ec2,kms,s3,fsx,iam}``, and
pulumi-kubernetes ``provider/pkg/provider/diff.go``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policy.aws import aws_type
from tests.components.aws.seen import Seen, cloud, with_aws
from tokenworks.plan.aws.types import CapacityPlanned, NodeGroupPlan
from tokenworks.plan.types import Plan

FORCE_NEW: dict[str, frozenset[str]] = {
    "eks.Cluster": frozenset(
        {"name", "roleArn", "accessConfig", "bootstrapSelfManagedAddons", "kubernetesNetworkConfig"}
    ),
    "eks.NodeGroup": frozenset(
        {
            "amiType",
            "capacityType",
            "clusterName",
            "diskSize",
            "instanceTypes",
            "nodeGroupName",
            "nodeGroupNamePrefix",
            "nodeRoleArn",
            "remoteAccess",
            "subnetIds",
        }
    ),
    "eks.Addon": frozenset({"addonName", "clusterName"}),
    "eks.AccessEntry": frozenset({"clusterName", "principalArn", "type"}),
    "eks.AccessPolicyAssociation": frozenset(
        {"clusterName", "principalArn", "policyArn", "accessScope"}
    ),
    "eks.PodIdentityAssociation": frozenset({"clusterName", "namespace", "serviceAccount"}),
    "ec2.LaunchTemplate": frozenset({"name", "namePrefix"}),
    "ec2.Vpc": frozenset({"cidrBlock", "instanceTenancy"}),
    "ec2.Subnet": frozenset({"vpcId", "cidrBlock", "availabilityZoneId", "availabilityZone"}),
    "ec2.SecurityGroup": frozenset({"name", "namePrefix", "vpcId"}),
    "vpc.SecurityGroupIngressRule": frozenset({"securityGroupId"}),
    "vpc.SecurityGroupEgressRule": frozenset({"securityGroupId"}),
    "ec2.VpcEndpoint": frozenset({"vpcId", "serviceName", "vpcEndpointType"}),
    "ec2.FlowLog": frozenset({"vpcId", "logDestination", "iamRoleArn", "trafficType"}),
    "fsx.LustreFileSystem": frozenset(
        {"subnetIds", "securityGroupIds", "kmsKeyId", "deploymentType", "storageType"}
    ),
    "iam.Role": frozenset({"name", "path"}),
    "iam.RolePolicy": frozenset({"name", "role"}),
    "iam.RolePolicyAttachment": frozenset({"role", "policyArn"}),
    "kms.Alias": frozenset({"name"}),
    "s3.Bucket": frozenset({"bucket"}),
    "cloudwatch.LogGroup": frozenset({"name"}),
}
KUBERNETES_FORCE_NEW = {
    "StorageClass": frozenset({"provisioner", "parameters"}),
    "PriorityClass": frozenset({"value"}),
}


def changed(before: Seen, after: Seen) -> dict[str, set[str]]:
    """Inputs that differ, by the resource's name; one that came or went differs in everything."""
    old = {one.urn: one for one in before.all()}
    new = {one.urn: one for one in after.all()}
    found: dict[str, set[str]] = {}
    for urn in old.keys() | new.keys():
        was, is_ = old.get(urn), new.get(urn)
        if was is None or is_ is None:
            found[urn.rpartition("::")[2]] = {"*"}
            continue
        keys = was.inputs.keys() | is_.inputs.keys()
        differs = {key for key in keys if was.inputs.get(key) != is_.inputs.get(key)}
        if differs - set(is_.ignore_changes):
            found[is_.name] = differs
    return found


def replaced(before: Seen, after: Seen) -> set[str]:
    """Names of what is made anew, or is there no more."""
    kinds = {one.name: one.type for one in [*before.all(), *after.all()]}
    found = set()
    for name, inputs in changed(before, after).items():
        forced = FORCE_NEW.get(
            aws_type(kinds[name]),
            KUBERNETES_FORCE_NEW.get(kinds[name].rpartition(":")[2], frozenset()),
        )
        if "*" in inputs or inputs & forced:
            found.add(name)
    return found


def with_groups(plan: Plan, **changes: Any) -> Plan:
    groups = tuple(replace(group, **changes) for group in cloud(plan).node_groups)
    return with_aws(plan, node_groups=groups)


def test_another_label_changes_node_groups_in_place_and_nothing_else(
    plan: Plan, seen: Seen
) -> None:
    groups = tuple(
        replace(group, labels={**group.labels, "team": "search"})
        for group in cloud(plan).node_groups
    )
    after = Seen.of(with_aws(plan, node_groups=groups))
    found = changed(seen, after)
    assert found == {one.name: {"labels"} for one in seen.kind("eks.NodeGroup")}
    assert not replaced(seen, after)


def test_another_taint_rolls_no_node(plan: Plan, seen: Seen) -> None:
    after = Seen.of(with_groups(plan, taints=(("a", "b", "NoSchedule"),)))
    assert set(map(frozenset, changed(seen, after).values())) == {frozenset({"taints"})}


def test_a_newer_image_rolls_nodes_in_place(plan: Plan, seen: Seen) -> None:
    after = Seen.of(with_groups(plan, release_version="1.36.4-20261101"))
    assert changed(seen, after) == {
        one.name: {"releaseVersion"} for one in seen.kind("eks.NodeGroup")
    }
    assert not replaced(seen, after)


def test_a_newer_kubernetes_replaces_neither_the_cluster_nor_a_node_group(
    plan: Plan, seen: Seen
) -> None:
    cluster = replace(cloud(plan).cluster, version="1.37")
    after = Seen.of(with_aws(plan, cluster=cluster))
    found = changed(seen, after)
    assert found.pop("control-plane-cluster") == {"version"}
    assert set(map(frozenset, found.values())) == {frozenset({"version"})}
    assert not replaced(seen, after)


def test_a_newer_add_on_is_an_update_of_that_add_on(plan: Plan, seen: Seen) -> None:
    cluster = cloud(plan).cluster
    first, *others = cluster.add_ons
    newer = replace(cluster, add_ons=(replace(first, version="v9.9.9-eksbuild.1"), *others))
    after = Seen.of(with_aws(plan, cluster=newer))
    assert changed(seen, after) == {f"add-on-{first.name}": {"addonVersion"}}


def test_other_user_data_is_another_version_of_the_same_template(plan: Plan, seen: Seen) -> None:
    after = Seen.of(with_groups(plan, user_data="other"))
    assert changed(seen, after) == {
        one.name: {"userData"} for one in seen.kind("ec2.LaunchTemplate")
    }
    assert not replaced(seen, after)


def test_a_group_that_scales_is_left_where_its_autoscaler_put_it(plan: Plan, seen: Seen) -> None:
    scales = {group.pool for group in cloud(plan).node_groups if group.minimum != group.maximum}
    assert scales == {"h100"}
    for one in seen.kind("eks.NodeGroup"):
        ignored = ("scalingConfig.desiredSize",) if one.name.startswith("h100-") else ()
        assert one.ignore_changes == ignored


def test_another_reason_of_a_rule_or_group_replaces_nothing(plan: Plan, seen: Seen) -> None:
    network = cloud(plan).network
    reworded = replace(
        network,
        security_groups={name: f"{text}!" for name, text in network.security_groups.items()},
        rules=tuple(replace(rule, because="other words") for rule in network.rules),
    )
    after = Seen.of(with_aws(plan, network=reworded))
    assert not replaced(seen, after)
    assert set(map(frozenset, changed(seen, after).values())) == {frozenset({"description"})}


def test_one_caller_more_changes_the_door_alone(plan: Plan, seen: Seen) -> None:
    more = ("10.0.0.0/10", "10.192.0.0/16")
    balancer = replace(cloud(plan).balancer, source_ranges=more, seen_ranges=more)
    after = Seen.of(with_aws(plan, balancer=balancer))
    assert set(changed(seen, after)) == {"gateway-service", "gateway-from-callers"}
    assert not replaced(seen, after)


@pytest.mark.parametrize("changes", [{"instance": "g6.8xlarge"}, {"zone_id": "use1-az1"}])
def test_another_kind_of_machine_is_another_group_beside_the_first(
    plan: Plan, seen: Seen, changes: dict[str, str]
) -> None:
    """AWS cannot change it in place; the prefix of its name lets the new one come first."""
    groups = tuple(
        replace(group, **changes) if group.pool == "l4" else group  # type: ignore[arg-type]
        for group in cloud(plan).node_groups
    )
    after = Seen.of(with_aws(plan, node_groups=groups))
    assert {name.partition("-")[0] for name in replaced(seen, after)} == {"l4"}
    for one in after.inputs("eks.NodeGroup"):
        assert "nodeGroupName" not in one
        assert one["nodeGroupNamePrefix"].endswith("-")


def test_a_version_of_a_template_is_a_number_and_of_a_release_a_date(seen: Seen) -> None:
    for one in seen.inputs("eks.NodeGroup"):
        assert one["launchTemplate"]["version"].isdecimal()
        assert one["releaseVersion"].startswith("1.36.")


def test_a_capacity_block_names_its_machine_in_the_template_alone(plan: Plan, seen: Seen) -> None:
    template: Any = seen.named("h100-use1-az6-template").inputs
    group: Any = seen.named("h100-use1-az6-nodes").inputs
    assert template["instanceType"] == "p5.48xlarge"
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group
    assert "instanceType" not in seen.named("l4-use1-az6-template").inputs


def test_a_reservation_is_on_demand_to_the_group_and_named_in_the_template(plan: Plan) -> None:
    def reserved(group: NodeGroupPlan) -> NodeGroupPlan:
        return replace(group, capacity=CapacityPlanned(kind="RESERVATION", reservation="cr-1"))

    after = Seen.of(with_aws(plan, node_groups=tuple(map(reserved, cloud(plan).node_groups))))
    for group in after.inputs("eks.NodeGroup"):
        assert group["capacityType"] == "ON_DEMAND"
    for template in after.inputs("ec2.LaunchTemplate"):
        target = template["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": "cr-1"}
        assert "instanceMarketOptions" not in template
