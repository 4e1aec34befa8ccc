"""Other environments than the example: NAT, EFS, fabric adapters, images of our own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.components.aws.seen import WORKSPACE, Seen, cloud, with_aws
from tests.hosts import samples
from tokenworks.check.mocks import record_run
from tokenworks.check.recording import Recording
from tokenworks.hosts.settings import HostSettings
from tokenworks.operations.record import recorded_program
from tokenworks.plan.aws.types import FileSystemPlan, ImagePlan, InterfacePlan, SubnetPlan
from tokenworks.plan.types import Decided, HostPoolPlan, Plan
from tokenworks.workspace import PROJECT

DIGEST = "ab" * 32
IMAGE = "tokenworks-example-aws-ubuntu-abababab"
ACCOUNT = "aws:index/getCallerIdentity:getCallerIdentity"
REGION = "aws:index/getRegion:getRegion"
A_KEY = min(path.name for path in (WORKSPACE.stacks / "hosts" / "keys").iterdir())
IMAGES = "aws:ec2/getAmiIds:getAmiIds"


def with_nat(plan: Plan) -> Plan:
    network = cloud(plan).network
    public = tuple(
        SubnetPlan(
            name=f"public-{zone}",
            role="public",
            zone_id=zone,
            cidr=f"10.64.255.{number * 16}/28",
            tags={"tokenworks:subnet": "public"},
        )
        for number, zone in enumerate(cloud(plan).zones)
    )
    nat = replace(
        network,
        subnets=(*network.subnets, *public),
        egress=Decided("nat", "asked for"),
        transit_gateway=None,
        routed_cidrs=(),
    )
    return with_aws(plan, network=nat)


def test_with_nat_each_zone_leaves_by_its_own_gateway(plan: Plan) -> None:
    seen = Seen.of(with_nat(plan))
    assert len(seen.kind("ec2.NatGateway")) == len(cloud(plan).zones)
    for zone in cloud(plan).zones:
        (route,) = [
            one
            for one in seen.kind("ec2.Route")
            if one.name == f"tokenworks-example-aws-nodes-{zone}-to-0.0.0.0_0"
        ]
        assert route.inputs["natGatewayId"]
        assert f"nat-{zone}" in seen.waits_for("network", route.name)


def test_with_nat_only_nat_is_in_public_subnets_and_access_subnets_do_not_leave(
    plan: Plan,
) -> None:
    seen = Seen.of(with_nat(plan))
    by_gateway = [one.name for one in seen.kind("ec2.Route") if "gatewayId" in one.inputs]
    assert by_gateway == [f"public-{zone}-to-0.0.0.0_0" for zone in cloud(plan).zones]
    assert not [one.name for one in seen.kind("ec2.Route") if "access" in one.name]
    assert all(one["mapPublicIpOnLaunch"] is False for one in seen.inputs("ec2.Subnet"))
    assert not seen.kind("ec2transitgateway.VpcAttachment")
    private = {one.inputs["subnetId"] for one in seen.kind("ec2.NatGateway")}
    for group in seen.inputs("eks.NodeGroup"):
        assert not private & set(group["subnetIds"])


def test_s3_is_reached_by_its_endpoint_from_private_subnets_only(plan: Plan) -> None:
    seen = Seen.of(with_nat(plan))
    (gateway,) = [one for one in seen.inputs("ec2.VpcEndpoint") if "routeTableIds" in one]
    assert len(gateway["routeTableIds"]) == 2 * len(cloud(plan).zones)


def with_efs(plan: Plan) -> Plan:
    files = FileSystemPlan(
        kind="efs",
        zone_id=None,
        deployment_type=None,
        lustre_version=None,
        capacity_gib=Decided(100, "as much as there is"),
        throughput_mb_per_second_per_tib=None,
        mount_options=("tls", "iam", "ro"),
    )
    return with_aws(plan, storage=replace(cloud(plan).storage, file_system=files))


def test_efs_is_mounted_in_every_zone_and_each_claim_has_a_folder_of_its_own(plan: Plan) -> None:
    seen = Seen.of(with_efs(plan))
    assert len(seen.kind("efs.MountTarget")) == len(cloud(plan).zones)
    points = seen.inputs("efs.AccessPoint")
    assert {one["rootDirectory"]["path"] for one in points} == {
        f"/weights/{model.weights.claim}" for model in plan.models
    }
    handles = [
        one.inputs["spec"]["csi"]["volumeHandle"]  # type: ignore[index,call-overload]
        for one in seen.all()
        if one.type.endswith(":PersistentVolume")
    ]
    assert len(set(handles)) == len(plan.models)
    assert not seen.kind("fsx.LustreFileSystem")


def with_adapters(plan: Plan) -> Plan:
    interfaces = (
        InterfacePlan(card=0, device=0, kind="interface"),
        InterfacePlan(card=1, device=1, kind="efa-only"),
    )
    groups = tuple(
        replace(group, interfaces=interfaces, placement_group=f"{group.name}-near")
        if group.pool == "h100"
        else group
        for group in cloud(plan).node_groups
    )
    return with_aws(plan, node_groups=groups)


def test_fabric_adapters_stand_in_the_template_with_their_groups(plan: Plan) -> None:
    seen = Seen.of(with_adapters(plan))
    template: Any = seen.named("h100-use1-az6-template").inputs
    assert "vpcSecurityGroupIds" not in template
    first, second = template["networkInterfaces"]
    assert (first["interfaceType"], second["interfaceType"]) == ("interface", "efa-only")
    assert (second["networkCardIndex"], second["deviceIndex"]) == (1, 1)
    assert len(first["securityGroups"]) == len(second["securityGroups"]) == 2
    assert "associatePublicIpAddress" not in first
    (near,) = seen.inputs("ec2.PlacementGroup")
    assert near["strategy"] == "cluster"
    assert template["placement"]["groupName"] == near["name"]


def with_own_image(plan: Plan) -> Plan:
    """A pool whose nodes start an image that our roles make."""
    image = ImagePlan(
        name=IMAGE,
        pools=("l4",),
        digest=DIGEST,
        lock_name="ubuntu",
        base_image="ami-0123456789abcdef0",
        builder_instance="g6.xlarge",
        zone_id="use1-az6",
        root_volume_gib=60,
    )
    groups = tuple(
        replace(group, image=IMAGE, ami_type=None, release_version=None)
        if group.pool == "l4"
        else group
        for group in cloud(plan).node_groups
    )
    network = cloud(plan).network
    grouped = replace(
        network, security_groups={**network.security_groups, "builder": "Machines for images"}
    )
    (repository,) = samples.lock().repositories
    there = repository.model_copy(update={"key_file": A_KEY})
    lock = samples.lock().model_copy(update={"repositories": (there,)})
    hosts = HostPoolPlan(lock_name="ubuntu", lock=lock, settings=HostSettings(), machines=())
    pools = tuple(replace(one, hosts=hosts if one.name == "l4" else None) for one in plan.pools)
    built = with_aws(plan, images=(image,), node_groups=groups, network=grouped)
    return replace(built, pools=pools)


@pytest.fixture(scope="module")
def built(plan: Plan) -> Seen:
    return Seen.of(with_own_image(plan))


def test_a_builder_is_called_by_nobody_and_has_no_key(built: Seen) -> None:
    (builder,) = built.inputs("ec2.Instance")
    assert builder["associatePublicIpAddress"] is False
    assert "keyName" not in builder
    assert builder["metadataOptions"]["httpTokens"] == "required"
    assert builder["rootBlockDevice"]["encrypted"] is True
    assert ":key/" in builder["rootBlockDevice"]["kmsKeyId"]
    (image,) = built.kind("ec2.AmiFromInstance")
    assert image.options.retain_on_delete
    assert image.inputs["name"] == IMAGE
    assert image.inputs["snapshotWithoutReboot"] is False


def test_an_image_is_taken_once_its_builder_is_prepared_and_can_transfer(built: Seen) -> None:
    needed = built.waits_for("image", f"ubuntu-{DIGEST[:10]}-image")
    assert {f"ubuntu-{DIGEST[:10]}-prepared", "transfers-policy", "transfers-encryption"} <= needed


def test_what_ansible_sends_is_kept_in_no_version_and_for_a_day(built: Seen) -> None:
    """Modules would lie in the history of the bucket for ever (amazon.aws ``aws_ssm``, notes)."""
    versioned = {one["bucket"] for one in built.inputs("s3.BucketVersioning")}
    transfers = cloud_bucket(built)
    assert transfers not in versioned
    (rule,) = [
        one["rules"][0]
        for one in built.inputs("s3.BucketLifecycleConfiguration")
        if one["bucket"] == transfers
    ]
    assert rule["expiration"] == {"days": 1}
    assert "noncurrentVersionExpiration" not in rule


def cloud_bucket(seen: Seen) -> str:
    bucket = seen.named("transfers-bucket").inputs["bucket"]
    assert isinstance(bucket, str)
    return bucket


def test_a_group_with_our_image_says_nothing_of_awss(built: Seen) -> None:
    group: Any = built.named("l4-use1-az6-nodes").inputs
    template: Any = built.named("l4-use1-az6-template").inputs
    assert not {"amiType", "releaseVersion", "version", "diskSize", "remoteAccess"} & set(group)
    assert template["imageId"].startswith("ami-")
    (disk,) = template["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/sda1"


def test_other_content_is_another_builder_and_an_image_beside_the_first(
    plan: Plan, built: Seen
) -> None:
    changed = with_own_image(plan)
    (image,) = cloud(changed).images
    other = replace(image, digest="cd" * 32, name=f"{IMAGE}-2")
    groups = tuple(
        replace(group, image=other.name) if group.image else group
        for group in cloud(changed).node_groups
    )
    after = Seen.of(with_aws(changed, images=(other,), node_groups=groups))
    first, second = built.kind("ec2.AmiFromInstance"), after.kind("ec2.AmiFromInstance")
    assert first[0].urn != second[0].urn
    assert built.kind("ec2.Instance")[0].urn != after.kind("ec2.Instance")[0].urn
    group: Any = built.named("l4-use1-az6-nodes").inputs
    assert group == after.named("l4-use1-az6-nodes").inputs  # its template has another version


def image_program(plan: Plan, *, own: dict[str, object], found: list[str]) -> Recording:
    """The image program where this stack, or the account, has something already."""
    earlier = {
        f"example-aws-{name}": dict(recording.outputs)
        for name, recording in Seen.of(plan).recordings.items()
    }
    known = cloud(plan)
    return record_run(
        recorded_program("image", WORKSPACE, plan),
        PROJECT,
        "example-aws-image",
        stacks={**earlier, "example-aws-image": own},
        calls={
            ACCOUNT: {"accountId": known.account, "arn": "a", "userId": "u", "id": "i"},
            REGION: {"region": known.region, "id": known.region},
            IMAGES: {"ids": found, "id": "i"},
        },
    )


def test_an_image_that_is_there_is_taken_and_nothing_is_built(plan: Plan) -> None:
    """After lost state, or going back to an earlier content, the name says that it is the same."""
    recording = image_program(with_own_image(plan), own={}, found=["ami-0feedfacefeedface"])
    assert recording.outputs["image_ids"] == {IMAGE: "ami-0feedfacefeedface"}
    assert [one.type for one in recording.resources] == ["pulumi:providers:aws"]


def test_an_image_that_this_stack_built_stays_with_it(plan: Plan) -> None:
    """Looked for in the account it would be found, and leave the stack at the second update."""
    recording = image_program(
        with_own_image(plan), own={"built": [IMAGE]}, found=["ami-0feedfacefeedface"]
    )
    assert recording.outputs["built"] == [IMAGE]
    kinds = {one.type.rpartition(":")[2] for one in recording.resources}
    assert {"Instance", "AmiFromInstance", "Builder"} <= kinds
    assert not [one for one in recording.calls if one.token == IMAGES]


def refused(plan: Plan, **calls: object) -> str:
    known = cloud(plan)
    answers = {
        ACCOUNT: {"accountId": known.account, "arn": "a", "userId": "u", "id": "i"},
        REGION: {"region": known.region, "id": known.region},
    }
    recorded: list[Recording] = []
    with pytest.raises(Exception, match=r".+") as caught:
        recorded.append(
            record_run(
                recorded_program("network", WORKSPACE, plan),
                PROJECT,
                "example-aws-network",
                calls={**answers, **calls},  # type: ignore[dict-item]
            )
        )
    assert not recorded
    return str(caught.value)


def test_credentials_of_another_account_are_refused_before_anything_is_made(plan: Plan) -> None:
    other = {"accountId": "999988887777", "arn": "a", "userId": "u", "id": "i"}
    said = refused(plan, **{ACCOUNT: other})
    assert "999988887777" in said
    assert "111122223333" in said
    assert "AWS_PROFILE" in said


def test_another_region_is_refused_before_anything_is_made(plan: Plan) -> None:
    said = refused(plan, **{REGION: {"region": "eu-west-1", "id": "eu-west-1"}})
    assert "eu-west-1" in said
    assert "us-east-1" in said
