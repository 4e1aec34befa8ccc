"""Images of ours: named by everything that is in them, and by nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.plan.aws.conftest import Changed
from tokenworks.plan.aws.types import AwsPlan, ImagePlan
from tokenworks.planning import ROLES, roles_digest


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


def test_roles_are_the_same_wherever_they_lie(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "tasks").mkdir(parents=True)
        (tmp_path / place / "tasks" / "main.yml").write_text("- name: one\n")
        (tmp_path / place / "site.yml").write_text("- hosts: all\n")
    one, other = tmp_path / "a", tmp_path / "b"
    assert roles_digest(one) == roles_digest(other)
    (other / "tasks" / "main.yml").write_text("- name: two\n")
    assert roles_digest(one) != roles_digest(other)


def test_a_file_under_another_name_is_another_content(tmp_path: Path) -> None:
    for place, name in (("a", "x.yml"), ("b", "y.yml")):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_text("same")
    assert roles_digest(tmp_path / "a") != roles_digest(tmp_path / "b")


def test_what_python_leaves_behind_is_nothing_of_an_image(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("- hosts: all\n")
    before = roles_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert roles_digest(tmp_path) == before
    assert roles_digest(ROLES)
