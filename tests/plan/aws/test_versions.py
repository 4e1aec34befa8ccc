"""Versions: exact, sourced, in the right order, and warned about before their support ends."""

from __future__ import annotations

import datetime
import json

import pytest

from tests.plan.aws.conftest import LOCK, ROOT, Changed
from tokenworks.facts.aws_versions import charts, kubernetes_versions, read_on, releases
from tokenworks.plan.aws.add_ons import add_on_names, canonical
from tokenworks.plan.aws.plan import driver_of_release
from tokenworks.plan.aws.support import WARNING_DAYS, support_warnings
from tokenworks.plan.aws.types import AwsPlan

VALUES = ROOT / "tests" / "cases" / "aws" / "chart-values"


def test_what_nodes_need_to_be_ready_comes_before_them(example: AwsPlan) -> None:
    before = [one.name for one in example.cluster.add_ons if one.before_nodes]
    after = [one.name for one in example.cluster.add_ons if not one.before_nodes]
    assert before == ["vpc-cni", "kube-proxy", "eks-pod-identity-agent"]
    assert after == ["coredns", "eks-node-monitoring-agent", "aws-fsx-csi-driver"]


def test_only_the_driver_of_the_file_system_is_there(other: AwsPlan) -> None:
    names = {one.name for one in other.cluster.add_ons}
    assert "aws-efs-csi-driver" in names
    assert not names & {"aws-fsx-csi-driver", "aws-ebs-csi-driver"}


def test_settings_are_one_text_for_one_meaning(example: AwsPlan) -> None:
    for add_on in example.cluster.add_ons:
        if add_on.configuration:
            assert add_on.configuration == canonical(json.loads(add_on.configuration))
    assert canonical({"b": {"d": 1, "c": 2}, "a": 3}) == '{"a":3,"b":{"c":2,"d":1}}'
    assert canonical({}) == ""


def test_network_policies_are_obeyed(example: AwsPlan) -> None:
    (plugin,) = [one for one in example.cluster.add_ons if one.name == "vpc-cni"]
    settings = json.loads(plugin.configuration)
    # The add-on takes it as text, not as a truth value.
    assert settings["enableNetworkPolicy"] == "true"
    assert settings["env"]["CLUSTER_NAME"] == example.cluster.name


def test_an_add_on_that_calls_aws_has_a_role_that_there_is(
    example: AwsPlan, other: AwsPlan
) -> None:
    for plan in (example, other):
        roles = {(pod.role.name, pod.service_account) for pod in plan.cluster.pod_roles}
        for add_on in plan.cluster.add_ons:
            assert (add_on.role is None) == (add_on.service_account is None)
            if add_on.role is not None:
                assert (add_on.role, add_on.service_account) in roles


def test_the_environment_may_take_another_version(other: AwsPlan) -> None:
    versions = {one.name: one.version for one in other.cluster.add_ons}
    assert versions["coredns"] == "v1.14.3-eksbuild.3"
    assert versions["kube-proxy"].startswith("v1.35.")


def test_every_version_that_can_be_planned_has_every_add_on_and_a_source() -> None:
    usable = {name: one for name, one in kubernetes_versions().items() if one.add_ons}
    assert set(usable) == {"1.35", "1.36"}
    for version, one in usable.items():
        for file_system in ("fsx-lustre", "efs"):
            assert set(add_on_names(file_system)) <= set(one.add_ons)
        assert all(found.source for found in one.add_ons.values())
        assert one.add_ons["kube-proxy"].version.startswith(f"v{version}.")
        assert all(name.startswith(f"{version}.") for name in one.releases)


def test_every_release_says_its_driver_and_where_that_was_read() -> None:
    for release in releases().values():
        assert release.source
        assert release.driver.startswith("580.")
    assert driver_of_release("1.36.2-20260714") == "580.159.03"


def test_the_driver_of_a_pool_is_that_of_its_image(example: AwsPlan) -> None:
    (group,) = [one for one in example.node_groups if one.pool == "h100"]
    assert group.labels["nvidia.com/cuda.driver-version.full"] == "580.159.03"


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (WARNING_DAYS + 1, None),
        (WARNING_DAYS, "ends on 2027-08-02, in 90 days"),
        (1, "ends on 2027-08-02, in 1 days"),
        (0, "ended on 2027-08-02"),
        (-30, "ended on 2027-08-02"),
    ],
)
def test_the_end_of_support_is_a_warning_ninety_days_ahead(
    example: AwsPlan, days: int, said: str | None
) -> None:
    today = example.cluster.support_ends - datetime.timedelta(days=days)
    warnings = list(support_warnings(example, today))
    assert (warnings == []) == (said is None)
    assert said is None or said in warnings[0]


def test_a_plan_is_the_same_on_every_day(changed: Changed) -> None:
    assert changed() == changed()
    assert read_on() >= datetime.date(2026, 11, 30)


def test_charts_are_exact_and_run_locked_images(example: AwsPlan) -> None:
    assert {chart.name for chart in example.charts} == set(charts())
    locked = {image.digest for image in LOCK.images}
    for chart in example.charts:
        assert chart.digest.startswith("sha256:")
        assert len(chart.digest) == 71
        assert chart.chart.endswith(f"{chart.name}-{chart.version}.tgz")
        for reference in chart.images:
            assert reference.rpartition("@")[2] in locked


def test_charts_are_told_their_images_by_digest_and_from_the_mirror(
    example: AwsPlan, other: AwsPlan
) -> None:
    for plan, start in ((example, "registry.example.org/mirror/"), (other, "")):
        for chart in plan.charts:
            image = chart.values["image"]
            assert isinstance(image, dict)
            assert f"{image['repository']}:{image['tag']}" == chart.images[0]
            assert chart.images[0].startswith(start)


def test_charts_know_every_value_that_they_are_given(example: AwsPlan) -> None:
    """Helm takes a misspelt value without a word, and the default stays."""
    for chart in example.charts:
        known = json.loads((VALUES / f"{chart.name}.json").read_text("utf-8"))["keys"]
        assert set(chart.values) <= set(known)


def test_the_controller_needs_no_answers_from_its_node(example: AwsPlan) -> None:
    values = example.charts[0].values
    assert values["region"] == "us-east-1"
    assert values["vpcTags"] == {"tokenworks:environment": "example-aws"}
    assert values["enableServiceMutatorWebhook"] is False
    assert values["clusterName"] == example.cluster.name


def test_nobody_but_the_deployer_administers(example: AwsPlan) -> None:
    who = {one.principal: one.policy.rpartition("/")[2] for one in example.cluster.access}
    assert who == {
        "arn:aws:iam::111122223333:role/tokenworks-deployer": "AmazonEKSClusterAdminPolicy",
        "arn:aws:iam::111122223333:role/on-call": "AmazonEKSViewPolicy",
    }
    # EKS makes the entry of the nodes' role, and refuses a second one (terraform-aws-eks#2968).
    assert not [one for one in who if example.cluster.node_role.name in one]


def test_every_log_of_the_control_plane_is_kept(example: AwsPlan) -> None:
    assert set(example.cluster.log_types) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
