"""Images of ours: named by everything that is in them, and by nothing else."""

from __future__ import annotations

from tests.plan.aws.conftest import Changed
from tokenworks.plan.aws.types import AwsPlan, ImagePlan


def image(plan: AwsPlan) -> ImagePlan:
    (found,) = plan.images
    return found


def test_pools_of_one_content_start_one_image(other: AwsPlan) -> None:
    assert image(other).pools == ("h100", "reserved")
    started = {group.image for group in other.node_groups if group.image}
    assert started == {image(other).name}


def test_nothing_is_built_where_aws_s_images_are_started(example: AwsPlan) -> None:
    assert example.images == ()


def test_an_image_is_named_by_its_content(other: AwsPlan) -> None:
    found = image(other)
    assert len(found.digest) == 64
    assert found.name.endswith(found.digest[:10])
    assert len(found.name) <= 128  # docs.aws.amazon.com/ec2, CreateImage


def test_another_base_is_another_image(other: AwsPlan, changed: Changed) -> None:
    plan = changed(("ami-0123456789abcdef0", "ami-0123456789abcdef1"))
    assert image(plan).name != image(other).name


def test_the_number_of_nodes_is_nothing_of_an_image(other: AwsPlan, changed: Changed) -> None:
    plan = changed(("nodes: 4\n    host_lock", "nodes: 3\n    host_lock"))
    assert image(plan).name == image(other).name


def test_the_builder_has_a_gpu_and_is_where_the_first_pool_is(other: AwsPlan) -> None:
    assert image(other).builder_instance == "g4dn.xlarge"
    assert image(other).zone_id == "usw2-az2"
