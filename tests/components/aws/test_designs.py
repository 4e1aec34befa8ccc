"""What public reports of broken clusters ask of single resources, beside their order."""

from __future__ import annotations

import json
from typing import Any

from tests.components.aws.seen import Seen

CONTROLLER = "aws-load-balancer-controller-release"


def test_the_controllers_shared_group_stays_with_the_controller(seen: Seen) -> None:
    """aws-load-balancer-controller#4207: turned off later, the group can never be deleted."""
    values: Any = seen.named(CONTROLLER).inputs["values"]
    assert "enableBackendSecurityGroup" not in values
    assert "backendSecurityGroup" not in values


def test_the_controller_asks_no_machine_where_it_is(seen: Seen) -> None:
    """aws-load-balancer-controller#2231: with one hop pods get no answer, and it ends."""
    values: Any = seen.named(CONTROLLER).inputs["values"]
    assert values["region"] == "us-east-1"
    assert values["vpcTags"] == {"tokenworks:environment": "example-aws"}
    assert values["enableServiceMutatorWebhook"] is False


def test_settings_of_add_ons_are_one_text_for_one_meaning(seen: Seen) -> None:
    """terraform-aws-eks#3380: EKS compares texts."""
    texts = [
        one["configurationValues"]
        for one in seen.inputs("eks.Addon")
        if "configurationValues" in one
    ]
    assert texts
    for text in texts:
        canonical = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        assert text == canonical


def test_policies_are_written_as_aws_gives_them_back(seen: Seen) -> None:
    """pulumi-aws#1338: lists in another order, and lists of one, differ at every look."""
    for one in seen.inputs("iam.RolePolicy"):
        for statement in json.loads(one["policy"])["Statement"]:
            for key in ("Action", "Resource"):
                value = statement[key]
                assert isinstance(value, str) or (len(value) > 1 and value == sorted(value))


def test_a_group_is_one_type_in_one_zone(seen: Seen) -> None:
    """containers-roadmap#2204: a zone without capacity fails the whole group."""
    groups = seen.inputs("eks.NodeGroup")
    assert groups
    for group in groups:
        assert len(group["subnetIds"]) == 1
        assert len(group.get("instanceTypes", ("in the template",))) == 1


def test_what_callers_must_not_see_is_secret_in_the_state(seen: Seen) -> None:
    """pulumi-kubernetes#1353: plain Secrets lie open in state and in annotations."""
    for name in ("gateway-keys", "gateway-certificate"):
        assert any("stringData" in key for key in seen.named(name).secrets), name


def test_an_unreachable_cluster_is_nobodys_permission_to_forget_what_is_in_it(seen: Seen) -> None:
    """pulumi-kubernetes#2517: that is for recovery, by hand."""
    for one in seen.all():
        if one.type == "pulumi:providers:kubernetes":
            assert not {"deleteUnreachable", "skipUpdateUnreachable"} & set(one.inputs)


def test_nobodys_release_is_forced_or_replaced(seen: Seen) -> None:
    releases = [one for one in seen.all() if one.type.endswith(":Release")]
    assert len(releases) == 2
    for one in releases:
        assert not {"forceUpdate", "recreatePods", "replace", "devel"} & set(one.inputs)
        assert str(one.inputs["chart"]).startswith("./.tokenworks/charts/")
        parent: Any = next(each for each in seen.all() if each.urn == one.parent)
        assert parent.inputs["digest"].startswith("sha256:")
        assert parent.inputs["version"] == one.inputs["version"]
