"""Nothing of an AWS environment is public, open to all, or allowed to do everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.components.aws.seen import Seen

ANYWHERE = {"0.0.0.0/0", "::/0"}


def statements(seen: Seen) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of a role's own policy, with the policy's name."""
    for one in seen.kind("iam.RolePolicy"):
        policy = one.inputs["policy"]
        assert isinstance(policy, str)
        for statement in json.loads(policy)["Statement"]:
            yield one.name, statement


def as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    "kind",
    ["ec2.InternetGateway", "ec2.EgressOnlyInternetGateway", "ec2.NatGateway", "ec2.Eip"],
)
def test_without_egress_there_is_no_way_to_the_internet_at_all(seen: Seen, kind: str) -> None:
    assert not seen.kind(kind)


def test_no_subnet_gives_addresses_and_none_is_public(seen: Seen) -> None:
    subnets = seen.inputs("ec2.Subnet")
    assert len(subnets) == 4
    assert all(one["mapPublicIpOnLaunch"] is False for one in subnets)
    assert {one["tags"]["tokenworks:subnet"] for one in subnets} == {"nodes", "access"}
    assert not any("kubernetes.io/role/elb" in one["tags"] for one in subnets)


def test_routes_lead_to_the_transit_gateway_and_nowhere_else(seen: Seen) -> None:
    for route in seen.inputs("ec2.Route"):
        assert route["transitGatewayId"] == "tgw-0123456789abcdef0"
        assert route["destinationCidrBlock"] not in ANYWHERE
        ways = {"gatewayId", "natGatewayId", "egressOnlyGatewayId", "networkInterfaceId"}
        assert not ways & set(route)


def test_no_rule_and_no_route_stands_inside_another_resource(seen: Seen) -> None:
    """Those written inside fight with those beside, and each update removes the others."""
    for group in seen.inputs("ec2.SecurityGroup"):
        assert not {"ingress", "egress"} & set(group)
    for table in seen.inputs("ec2.RouteTable"):
        assert "routes" not in table
    assert not seen.kind("ec2.SecurityGroupRule")
    for role in seen.inputs("iam.Role"):
        assert not {"inlinePolicies", "managedPolicyArns"} & set(role)


def test_the_default_group_lets_nobody_in_or_out(seen: Seen) -> None:
    (group,) = seen.inputs("ec2.DefaultSecurityGroup")
    assert not {"ingress", "egress"} & set(group)


def test_nobody_outside_of_the_network_comes_in_but_operators_to_the_api(seen: Seen) -> None:
    rules = seen.inputs("vpc.SecurityGroupIngressRule")
    assert rules
    for rule in rules:
        assert rule.get("cidrIpv4") in {None, "10.128.0.0/16", "10.64.0.0/16"}
        assert "cidrIpv6" not in rule
    from_operators = [rule for rule in rules if rule.get("cidrIpv4") == "10.128.0.0/16"]
    assert [(rule["fromPort"], rule["toPort"]) for rule in from_operators] == [(443, 443)]


def test_the_api_server_has_no_public_address_and_knows_only_entries(seen: Seen) -> None:
    (cluster,) = seen.inputs("eks.Cluster")
    assert cluster["vpcConfig"]["endpointPublicAccess"] is False
    assert cluster["vpcConfig"]["endpointPrivateAccess"] is True
    assert cluster["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }
    assert cluster["bootstrapSelfManagedAddons"] is False
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}
    assert cluster["deletionProtection"] is True


def test_nodes_have_no_entry_of_ours_since_eks_makes_theirs(seen: Seen) -> None:
    """terraform-aws-eks#2968: a second one is refused as in use."""
    principals = {one["principalArn"].rpartition("/")[2] for one in seen.inputs("eks.AccessEntry")}
    assert principals == {"tokenworks-deployer", "on-call"}


def test_an_entry_is_made_anew_with_its_role(seen: Seen) -> None:
    """terraform-aws-eks#3329: one of a role that was deleted lets nobody in."""
    triggers = {one.options.replacement_trigger for one in seen.kind("eks.AccessEntry")}
    assert all(isinstance(one, str) and one.startswith("AROA") for one in triggers)
    assert len(triggers) == 2


def test_pods_cannot_take_the_role_of_their_node(seen: Seen) -> None:
    for template in seen.inputs("ec2.LaunchTemplate"):
        assert template["metadataOptions"]["httpTokens"] == "required"
        assert template["metadataOptions"]["httpPutResponseHopLimit"] == 1


def test_everything_that_holds_data_is_encrypted_by_a_key_of_ours(seen: Seen) -> None:
    for template in seen.inputs("ec2.LaunchTemplate"):
        (disk,) = template["blockDeviceMappings"]
        assert disk["ebs"]["encrypted"] == "true"
        assert ":key/" in disk["ebs"]["kmsKeyId"]
    (files,) = seen.inputs("fsx.LustreFileSystem")
    assert ":key/" in files["kmsKeyId"]
    (cluster,) = seen.inputs("eks.Cluster")
    assert cluster["encryptionConfig"]["resources"] == ("secrets",)
    logs = {one["name"]: one for one in seen.inputs("cloudwatch.LogGroup")}
    assert ":key/" in logs["/aws/eks/tokenworks-example-aws/cluster"]["kmsKeyId"]
    for rules in seen.inputs("s3.BucketServerSideEncryptionConfiguration"):
        (rule,) = rules["rules"]
        assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "aws:kms"


def test_buckets_cannot_be_made_public(seen: Seen) -> None:
    buckets = {one.inputs["bucket"] for one in seen.kind("s3.Bucket")}
    closed = {
        one["bucket"]
        for one in seen.inputs("s3.BucketPublicAccessBlock")
        if all(
            one[key]
            for key in (
                "blockPublicAcls",
                "blockPublicPolicy",
                "ignorePublicAcls",
                "restrictPublicBuckets",
            )
        )
    }
    assert buckets == closed
    for policy in seen.inputs("s3.BucketPolicy"):
        assert all(one["Effect"] == "Deny" for one in json.loads(policy["policy"])["Statement"])


def test_no_role_may_do_everything_that_a_service_can(seen: Seen) -> None:
    found = list(statements(seen))
    assert found
    for name, statement in found:
        assert not [one for one in as_list(statement["Action"]) if "*" in one], name
        assert "NotAction" not in statement
        assert "NotResource" not in statement


def test_what_is_granted_on_everything_can_only_look(seen: Seen) -> None:
    looks = ("Describe", "Get", "List")
    for name, statement in statements(seen):
        if "*" in as_list(statement["Resource"]):
            words = [one.partition(":")[2] for one in as_list(statement["Action"])]
            assert all(one.startswith(looks) for one in words), f"{name}: {words}"


def test_the_gateways_balancer_is_internal_and_admits_callers_only(seen: Seen) -> None:
    service: Any = seen.named("gateway-service").inputs
    prefix = "service.beta.kubernetes.io/aws-load-balancer-"
    annotations = service["metadata"]["annotations"]
    assert annotations[f"{prefix}scheme"] == "internal"
    assert annotations[f"{prefix}nlb-target-type"] == "ip"
    idle = annotations[f"{prefix}listener-attributes.TCP-443"]
    assert idle == "tcp.idle_timeout.seconds=3600"
    assert service["spec"]["loadBalancerSourceRanges"] == ("10.0.0.0/10",)
    assert service["spec"]["allocateLoadBalancerNodePorts"] is False
    balanced = [
        one.name
        for one in seen.all()
        if one.type.endswith(":Service") and one.inputs["spec"].get("type") == "LoadBalancer"  # type: ignore[union-attr]
    ]
    assert balanced == ["gateway-service"]


def test_volumes_stay_when_their_claim_goes_and_only_that_claim_can_have_them(seen: Seen) -> None:
    volumes = [one.inputs for one in seen.all() if one.type.endswith(":PersistentVolume")]
    assert len(volumes) == 2
    specs: list[Any] = [one["spec"] for one in volumes]
    for spec in specs:
        assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert len({spec["csi"]["volumeHandle"] for spec in specs}) == 2
    folders = {one["key"] for one in seen.inputs("s3.BucketObjectv2")}
    mounted = {spec["csi"]["volumeAttributes"]["mountname"].partition("/")[2] for spec in specs}
    assert folders == {f"{folder}/" for folder in mounted}
    for one in seen.all():
        if one.type.endswith(":PersistentVolumeClaim"):
            claim: Any = one.inputs
            (spec,) = [s for s in specs if s["claimRef"]["name"] == claim["metadata"]["name"]]
            assert claim["spec"]["storageClassName"] == spec["storageClassName"]


def test_engines_cannot_write_to_their_weights(seen: Seen) -> None:
    for name in ("llama-3-1-8b-instruct-deployment", "qwen3-32b-deployment"):
        inputs: Any = seen.named(name).inputs
        spec = inputs["spec"]["template"]["spec"]
        (volume,) = [one for one in spec["volumes"] if one["name"] == "weights"]
        assert volume["persistentVolumeClaim"]["readOnly"] is True
        for container in (*spec["initContainers"], *spec["containers"]):
            (mount,) = [one for one in container["volumeMounts"] if one["name"] == "weights"]
            assert mount["readOnly"] is True


def test_credentials_of_the_cluster_are_asked_for_and_never_kept(seen: Seen) -> None:
    for one in seen.all():
        if one.type == "pulumi:providers:kubernetes":
            kubeconfig = one.inputs["kubeconfig"]
            assert isinstance(kubeconfig, str)
            (user,) = json.loads(kubeconfig)["users"]
            assert set(user["user"]) == {"exec"}
            assert user["user"]["exec"]["args"][:2] == ["eks", "get-token"]
            identifier = one.inputs["clusterIdentifier"]
            assert isinstance(identifier, str)
            assert " of " not in identifier.partition(" of ")[2]


def test_the_provider_acts_in_one_account_and_region(seen: Seen) -> None:
    providers = [one.inputs for one in seen.all() if one.type == "pulumi:providers:aws"]
    assert len(providers) == 5
    for one in providers:
        assert one["region"] == "us-east-1"
        assert json.loads(str(one["allowedAccountIds"])) == ["111122223333"]
        assert not {"defaultTags", "accessKey", "secretKey"} & set(one)


def test_data_is_protected_twice_over(seen: Seen) -> None:
    protected = {one.name for one in seen.all() if one.options.protect}
    assert protected == {
        "weights-key",
        "weights-alias",
        "secrets-key",
        "secrets-alias",
        "nodes-key",
        "nodes-alias",
        "logs-key",
        "logs-alias",
        "weights-bucket",
        "weights-files-lustre",
        "control-plane-cluster",
    }
