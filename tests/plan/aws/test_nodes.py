"""Node groups: zones, capacity, adapters, labels, images, and what a node is told."""

from __future__ import annotations

import json
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.plan.aws.conftest import ROOT, Changed
from tests.plan.aws.schemas import problems
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.plan.aws.nodes import interfaces
from tokenworks.plan.aws.types import AwsPlan, NodeGroupPlan
from tokenworks.plan.aws.zones import spread

GOLDEN = ROOT / "tests" / "cases" / "aws" / "user-data"


def of(plan: AwsPlan, pool: str) -> list[NodeGroupPlan]:
    return [group for group in plan.node_groups if group.pool == pool]


def parts(group: NodeGroupPlan) -> dict[str, str]:
    message = message_from_string(group.user_data)
    assert message.is_multipart()
    return {
        part.get_content_type(): str(part.get_payload())
        for part in message.walk()
        if not part.is_multipart()
    }


NODE_CONFIG = json.loads(
    (ROOT / "tests" / "cases" / "aws" / "node-config.schema.json").read_text("utf-8")
)


def node_config(group: NodeGroupPlan) -> Any:
    return YAML(typ="safe").load(parts(group)["application/node.eks.aws"])


@given(st.integers(0, 500), st.integers(1, 6))
def test_nodes_are_spread_evenly_and_none_is_lost(nodes: int, zones: int) -> None:
    found = dict(spread(nodes, tuple(f"z{number}" for number in range(zones))))
    assert sum(found.values()) == nodes
    assert all(found.values())
    assert not found or len(found) < zones or max(found.values()) - min(found.values()) <= 1


def test_a_group_has_one_instance_type_in_one_zone(other: AwsPlan) -> None:
    assert [(group.zone_id, group.nodes) for group in of(other, "spread")] == [
        ("usw2-az1", 2),
        ("usw2-az2", 1),
        ("usw2-az3", 1),
    ]
    assert len({group.name for group in other.node_groups}) == len(other.node_groups)


def test_nodes_stay_out_of_zones_that_do_not_offer_them(changed: Changed) -> None:
    plan = changed(
        (
            "instance: p5.48xlarge\n    nodes: 4\n    release",
            "instance: p5en.48xlarge\n    nodes: 4\n    release",
        ),
    )
    assert {group.zone_id for group in of(plan, "spread")} == {"usw2-az2", "usw2-az3"}


def test_system_nodes_are_in_two_zones_and_have_no_taint(example: AwsPlan) -> None:
    groups = of(example, "system")
    assert len({group.zone_id for group in groups}) == 2
    assert sum(group.nodes for group in groups) == 2
    assert all(
        group.taints == () and group.ami_type == "AL2023_x86_64_STANDARD" for group in groups
    )


def test_gpu_nodes_keep_others_away_and_are_found_by_what_engines_ask(example: AwsPlan) -> None:
    (group,) = of(example, "h100")
    assert group.taints == (("nvidia.com/gpu", "present", "NoSchedule"),)
    assert group.labels["tokenworks.dev/node-pool"] == "h100"
    assert group.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert group.labels["nvidia.com/gpu.present"] == "true"


def test_no_label_is_one_that_kubelets_may_not_set(example: AwsPlan, other: AwsPlan) -> None:
    for group in (*example.node_groups, *other.node_groups):
        assert not [key for key in group.labels if "kubernetes.io" in key or "k8s.io" in key]


def test_a_block_may_end_and_other_capacity_may_not(example: AwsPlan, other: AwsPlan) -> None:
    (block,) = of(example, "h100")
    assert block.capacity.kind == "CAPACITY_BLOCK"
    assert (block.minimum, block.nodes, block.maximum) == (0, 2, 2)
    (reserved,) = of(other, "reserved")
    assert reserved.capacity.kind == "RESERVATION"
    assert (reserved.minimum, reserved.maximum) == (2, 2)
    assert reserved.zone_id == "usw2-az1"


def test_nobody_has_spare_gpus_for_an_update(example: AwsPlan) -> None:
    strategies = {group.pool: group.update_strategy for group in example.node_groups}
    assert strategies == {"h100": "MINIMAL", "l4": "MINIMAL", "system": "DEFAULT"}


def test_an_image_is_aws_s_at_a_release_or_ours_and_never_both(other: AwsPlan) -> None:
    for group in other.node_groups:
        assert (group.image is None) == (group.release_version is not None)
        assert (group.image is None) == (group.ami_type is not None)


def test_adapters_bring_a_placement_group_unless_the_capacity_has_its_place(
    other: AwsPlan, example: AwsPlan
) -> None:
    (group,) = of(other, "h100")
    assert group.placement_group == group.name
    assert not [one for one in example.node_groups if one.placement_group or one.interfaces]


@pytest.mark.parametrize(
    ("instance", "adapters", "beside_the_first"),
    [
        ("p5.48xlarge", 32, True),
        ("p5en.48xlarge", 16, True),
        ("p6-b300.48xlarge", 16, False),
        ("p4d.24xlarge", 4, True),
        ("g6e.24xlarge", 2, True),
        ("g6.8xlarge", 1, True),
    ],
)
def test_every_adapter_has_a_card_of_its_own(
    instance: str, adapters: int, beside_the_first: bool
) -> None:
    first, *others = interfaces(aws_instances()[instance])
    assert (first.card, first.device, first.kind) == (0, 0, "interface")
    assert [one.kind for one in others] == ["efa-only"] * adapters
    assert len({one.card for one in others}) == adapters
    assert (others[0].card == 0) == beside_the_first


def test_no_type_gets_more_adapters_or_cards_than_it_has() -> None:
    for shape in aws_instances().values():
        if shape.efa:
            found = interfaces(shape)
            assert sum(1 for one in found if one.kind == "efa-only") == shape.efa
            assert max(one.card for one in found) < shape.network_cards


def test_user_data_is_as_reviewed(example: AwsPlan, other: AwsPlan) -> None:
    told = {
        f"{group.pool}-of-{name}": group.user_data
        for name, plan in (("example", example), ("images", other))
        for group in plan.node_groups
    }
    files = {file.stem: file.read_text("utf-8") for file in sorted(GOLDEN.glob("*.mime"))}
    assert told == files, "python -m tests.plan.aws.golden writes them anew"


def test_a_node_config_has_the_fields_that_nodeadm_knows(example: AwsPlan, other: AwsPlan) -> None:
    configs = [
        node_config(group)
        for group in (*example.node_groups, *other.node_groups)
        if group.image is None
    ]
    assert configs
    for config in configs:
        assert not problems(config, NODE_CONFIG)
        # EKS adds the cluster's part itself to what is started from its own images.
        assert "cluster" not in config["spec"]
    misspelt = {**configs[0], "spec": {"kubelet": {"config": {"maxpods": 5}}}}
    assert problems(misspelt, NODE_CONFIG)


def test_a_label_is_nothing_that_a_node_would_be_replaced_for(example: AwsPlan) -> None:
    for group in example.node_groups:
        assert "node-labels" not in group.user_data
        assert "gpu.product" not in group.user_data


def test_taints_are_there_before_the_first_pod_can_come(example: AwsPlan, other: AwsPlan) -> None:
    taint = "--register-with-taints=nvidia.com/gpu=present:NoSchedule"
    for group in (*example.node_groups, *other.node_groups):
        assert (taint in group.user_data) == (group.pool != "system")


def test_aws_s_image_makes_one_array_of_its_disks(example: AwsPlan) -> None:
    config = node_config(of(example, "h100")[0])
    assert config["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in node_config(of(example, "system")[0])["spec"]


def test_nodes_that_read_lustre_get_its_client_or_never_join(
    example: AwsPlan, other: AwsPlan
) -> None:
    script = parts(of(example, "h100")[0])["text/x-shellscript"]
    assert "lustre-client" in script
    assert "systemctl mask" in script
    assert "text/x-shellscript" not in parts(of(example, "system")[0])
    assert "lustre" not in of(other, "spread")[0].user_data


def test_an_image_of_ours_is_told_what_eks_does_not_tell_it(other: AwsPlan) -> None:
    script = parts(of(other, "h100")[0])["text/x-shellscript"]
    for word in ("${cluster_endpoint}", "${cluster_certificate_authority}", "--max-pods=51"):
        assert word in script
    assert "--dns-cluster-ip 172.30.0.10" in script
    assert "${" not in of(other, "spread")[0].user_data


def test_a_node_of_ours_holds_its_images_on_a_larger_root(other: AwsPlan) -> None:
    assert of(other, "h100")[0].root_volume_gib > of(other, "spread")[0].root_volume_gib


def test_templates_are_there_for_every_part(example: AwsPlan) -> None:
    folder = Path(ROOT / "templates" / "aws")
    assert {file.name for file in folder.iterdir()} == {
        "user-data.mime.j2",
        "node-config.yaml.j2",
        "lustre-client.sh.j2",
        "bootstrap.sh.j2",
    }
