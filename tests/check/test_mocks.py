from __future__ import annotations

import re
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from pulumi.runtime.settings import SETTINGS

from policy.resources import UNKNOWN, peek
from tokenworks.check.guard import install_guard
from tokenworks.check.judge import judge
from tokenworks.check.mocks import record, record_run
from tokenworks.check.recorded import resources_of
from tokenworks.errors import OperationError


class Pair(pulumi.ComponentResource):
    """Two ConfigMaps under one component."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Pair", name)
        for half in ("left", "right"):
            child = pulumi.ResourceOptions(parent=self)
            kubernetes.core.v1.ConfigMap(f"{name}-{half}", data={}, opts=child)
        self.register_outputs({})


def test_a_recording_has_type_name_inputs_and_parent() -> None:
    def program() -> None:
        Pair("maps")

    pair, left, right = record(program, "tokenworks", "test")
    assert (pair.type, pair.name, pair.parent, pair.custom) == (
        "test:index:Pair",
        "maps",
        "",
        False,
    )
    assert [left.parent, right.parent] == [pair.urn, pair.urn]
    assert left.urn == (
        "urn:pulumi:test::tokenworks::test:index:Pair$kubernetes:core/v1:ConfigMap::maps-left"
    )
    assert left.inputs == {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}


def test_inputs_are_those_of_the_wire() -> None:
    def program() -> None:
        ports = [{"port": 443, "target_port": "https"}]
        kubernetes.core.v1.Service("s", spec={"ports": ports, "external_ips": ["a"]})

    (service,) = record(program, "p", "s")
    wired = ({"port": 443, "targetPort": "https"},)
    assert service.inputs["spec"] == {"ports": wired, "externalIPs": ("a",)}


def test_two_runs_in_one_process_know_nothing_of_each_other() -> None:
    def first() -> None:
        assert pulumi.Config("a").require("x") == "1"
        kubernetes.core.v1.Namespace("same")
        pulumi.export("stack", pulumi.get_stack())

    def second() -> None:
        assert pulumi.Config("a").get("x") is None
        kubernetes.core.v1.Namespace("same")

    before = pulumi.get_stack()
    one = record_run(first, "a", "one", {"a:x": "1"})
    two = record_run(second, "a", "two")
    assert one.outputs == {"stack": "one"}
    assert two.outputs == {}
    assert [len(one.resources), len(two.resources)] == [1, 1]
    assert pulumi.get_stack() == before


def test_the_same_program_gives_the_same_recording() -> None:
    def program() -> None:
        namespace = kubernetes.core.v1.Namespace("n")
        for number in range(20):
            metadata = {"namespace": namespace.metadata.name}
            kubernetes.core.v1.ConfigMap(f"c{number}", metadata=metadata)

    assert record_run(program, "p", "s") == record_run(program, "p", "s")


def test_kubernetes_answers_with_names_and_addresses() -> None:
    def program() -> None:
        namespace = kubernetes.core.v1.Namespace("engines")
        metadata = {"namespace": namespace.metadata.name}
        service = kubernetes.core.v1.Service(
            "gateway", metadata=metadata, spec={"type": "LoadBalancer"}
        )
        pulumi.export("namespace", namespace.metadata.name)
        pulumi.export("id", service.id)
        pulumi.export("address", service.status.load_balancer.ingress[0].ip)
        pulumi.export("cluster", service.spec.cluster_ip)

    outputs = record_run(program, "p", "s").outputs
    assert str(outputs["namespace"]).startswith("engines-")
    assert str(outputs["id"]).startswith(f"{outputs['namespace']}/gateway-")
    assert str(outputs["address"]).startswith("10.")
    assert str(outputs["cluster"]).startswith("10.96.")


def test_secret_configuration_stays_secret_and_its_place_is_known() -> None:
    def program() -> None:
        key = pulumi.Config("p").require_secret("key")
        kubernetes.core.v1.ConfigMap("keys", data={"key": key, "plain": "x"})

    (keys,) = record(program, "p", "s", secrets={"p:key": "hunter2"})
    assert keys.secrets == {"data.key"}
    assert peek(keys.inputs, "data", "key") == "hunter2"


def test_a_stack_reference_reads_what_another_recording_exported() -> None:
    def cluster() -> None:
        pulumi.export("namespace", "engines")

    def serving() -> None:
        stack = pulumi.StackReference("organization/tokenworks/local-cluster")
        metadata = {"namespace": stack.require_output("namespace")}
        kubernetes.core.v1.ConfigMap("c", metadata=metadata)

    stacks = {"local-cluster": record_run(cluster, "tokenworks", "local-cluster").outputs}
    (settings,) = record_run(serving, "tokenworks", "local-serving", stacks=stacks).resources
    assert settings.inputs["metadata"] == {"namespace": "engines"}


def test_a_stack_reference_without_outputs_says_what_to_do() -> None:
    def program() -> None:
        pulumi.StackReference("organization/tokenworks/elsewhere")

    with pytest.raises(OperationError, match=r"tokenworks/elsewhere.*record that program first"):
        record(program, "p", "s")


def test_a_call_that_nobody_can_answer_says_what_to_do() -> None:
    def program() -> None:
        pulumi.runtime.invoke("aws:ssm/getParameter:getParameter", {"name": "/x"})

    with pytest.raises(OperationError, match=r"getParameter: .*give record_run one in `calls`"):
        record(program, "p", "s")


def test_a_call_is_answered_as_given_and_recorded() -> None:
    function = "aws:ssm/getParameter:getParameter"

    def program() -> None:
        answer = pulumi.runtime.invoke(function, {"name": "/x"}).value or {}
        pulumi.export("value", answer["value"])

    recording = record_run(program, "p", "s", calls={function: {"value": "ami-1"}})
    assert recording.outputs == {"value": "ami-1"}
    (call,) = recording.calls
    assert (call.token, call.arguments) == (function, {"name": "/x"})


class Made(pulumi.CustomResource):
    """A resource of any type, with outputs that the tests here read."""

    arn: pulumi.Output[str]
    cidrBlock: pulumi.Output[str]  # noqa: N815  the wire's name
    latestVersion: pulumi.Output[int]  # noqa: N815  the wire's name

    def __init__(self, type_: str, name: str, inputs: dict[str, Any] | None = None) -> None:
        outputs = dict.fromkeys(("arn", "cidrBlock", "latestVersion"))
        super().__init__(type_, name, {**outputs, **(inputs or {})})


def test_any_other_provider_answers_with_the_inputs_and_an_id() -> None:
    def program() -> None:
        zone = Made("example:index/zone:Zone", "main", {"cidrBlock": "10.0.0.0/16"})
        pulumi.export("zone", pulumi.Output.concat(zone.id, " ", zone.cidrBlock))

    assert record_run(program, "p", "s").outputs == {"zone": "main-id 10.0.0.0/16"}


def test_aws_answers_with_ids_and_arns_of_its_own_forms() -> None:
    def program() -> None:
        vpc = Made("aws:ec2/vpc:Vpc", "main", {"cidrBlock": "10.0.0.0/16"})
        template = Made("aws:ec2/launchTemplate:LaunchTemplate", "gpu")
        balancer = Made("aws:lb/loadBalancer:LoadBalancer", "gateway", {"internal": True})
        pulumi.export("vpc", vpc.id)
        pulumi.export("cidr", vpc.cidrBlock)
        pulumi.export("version", template.latestVersion)
        pulumi.export("balancer", balancer.id)
        pulumi.export("arn", balancer.arn)

    first, second = (record_run(program, "p", "s") for _ in range(2))
    assert first == second
    outputs = first.outputs
    assert re.fullmatch("vpc-[0-9a-f]{17}", str(outputs["vpc"]))
    assert (outputs["cidr"], outputs["version"]) == ("10.0.0.0/16", 1)
    assert str(outputs["arn"]).startswith("arn:aws:lb:eu-west-1:123456789012:loadBalancer/gateway-")
    assert outputs["balancer"] == outputs["arn"]
    assert first.resources[0].known_as >= {outputs["vpc"]}
    assert first.resources[2].known_as == {outputs["arn"]}


def test_what_aws_made_is_found_again_where_it_is_used() -> None:
    def program() -> None:
        public = Made("aws:ec2/subnet:Subnet", "public", {"mapPublicIpOnLaunch": True})
        group = {"subnetIds": [public.id], "instanceTypes": ["p5.48xlarge"]}
        Made("aws:eks/nodeGroup:NodeGroup", "gpu", group)

    judgement = judge(resources_of([record_run(program, "p", "s")]))
    addresses = "gpu-nodes-have-no-public-addresses"
    assert {(one.subject, one.key) for one in judgement.findings if one.rule == addresses} == {
        ("aws:ec2/subnet:Subnet public", "mapPublicIpOnLaunch"),
        ("aws:eks/nodeGroup:NodeGroup gpu", "subnetIds[0]"),
    }


@pytest.mark.parametrize(
    ("token", "arguments", "key", "form"),
    [
        ("aws:index/getCallerIdentity:getCallerIdentity", {}, "accountId", "[0-9]{12}"),
        ("aws:index/getRegion:getRegion", {}, "name", "[a-z]+-[a-z]+-[0-9]"),
        ("aws:index/getPartition:getPartition", {}, "partition", "aws"),
        ("aws:ec2/getAmi:getAmi", {"mostRecent": True}, "id", "ami-[0-9a-f]{17}"),
        ("aws:ssm/getParameter:getParameter", {"name": "/aws/service/x"}, "value", "ami-.{17}"),
        ("aws:iam/getPolicyDocument:getPolicyDocument", {"statements": []}, "json", r"\{.*\}"),
    ],
)
def test_aws_answers_common_calls(
    token: str, arguments: dict[str, Any], key: str, form: str
) -> None:
    def program() -> None:
        answer = pulumi.runtime.invoke(token, arguments).value or {}
        pulumi.export("value", answer[key])

    first, second = (record_run(program, "p", "s").outputs for _ in range(2))
    assert first == second
    assert re.fullmatch(form, str(first["value"]))


def test_three_zones_are_available() -> None:
    def program() -> None:
        zones = "aws:index/getAvailabilityZones:getAvailabilityZones"
        pulumi.export("names", (pulumi.runtime.invoke(zones, {}).value or {})["names"])

    assert record_run(program, "p", "s").outputs["names"] == [
        "eu-west-1a",
        "eu-west-1b",
        "eu-west-1c",
    ]


def test_a_call_for_the_newest_image_is_answered_and_judged() -> None:
    def program() -> None:
        pulumi.runtime.invoke("aws:ec2/getAmi:getAmi", {"mostRecent": True})

    (finding,) = judge(resources_of([record_run(program, "p", "s")])).findings
    assert (finding.rule, finding.key) == ("node-images-are-one-release", "mostRecent")


def test_two_resources_of_one_name_are_refused_as_the_engine_does() -> None:
    def program() -> None:
        kubernetes.core.v1.ConfigMap("same")
        kubernetes.core.v1.ConfigMap("same")

    with pytest.raises(OperationError, match=r"ConfigMap same: .*same type, parent and name"):
        record(program, "p", "s")


def test_what_a_program_raises_is_raised_here() -> None:
    def program() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        record(program, "p", "s")


def test_a_run_that_fails_leaves_nothing_behind_for_the_next() -> None:
    def failing() -> None:
        first = kubernetes.core.v1.ConfigMap("first")
        kubernetes.core.v1.ConfigMap("second", data={"id": first.id.apply(lambda _: str(1 / 0))})

    def good() -> None:
        pulumi.export("id", kubernetes.core.v1.ConfigMap("first").id)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            record(failing, "p", "s")
        assert set(record_run(good, "p", "s").outputs) == {"id"}


def test_a_run_waits_for_its_own_outputs_and_for_nobody_elses() -> None:
    outstanding = [SETTINGS.outputs]

    def program() -> None:
        outstanding.append(SETTINGS.outputs)

    record(program, "p", "s")
    record(program, "p", "s")
    assert len({id(outputs) for outputs in outstanding}) == 3


def test_ignored_changes_are_recorded() -> None:
    def program() -> None:
        ignoring = pulumi.ResourceOptions(ignore_changes=["data.image"])
        kubernetes.core.v1.ConfigMap("c", opts=ignoring)

    (settings,) = record(program, "p", "s")
    assert settings.ignore_changes == ("data.image",)


def test_manifests_given_as_text_become_resources() -> None:
    manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}"

    def program() -> None:
        kubernetes.yaml.ConfigGroup("g", yaml=[manifest])

    assert [one.type for one in record(program, "p", "s")] == [
        "kubernetes:yaml:ConfigGroup",
        "kubernetes:core/v1:ConfigMap",
    ]


def test_a_guarded_program_is_recorded_like_any_other() -> None:
    def program() -> None:
        install_guard()
        kubernetes.core.v1.Service("s", spec={"type": "LoadBalancer"})

    assert [one.name for one in record(program, "p", "s")] == ["s"]


def test_nothing_is_unknown_where_every_input_is_known() -> None:
    def program() -> None:
        first = kubernetes.core.v1.ConfigMap("first")
        kubernetes.core.v1.ConfigMap("second", data={"id": first.id, "uid": first.metadata.uid})

    *_, second = record(program, "p", "s")
    assert UNKNOWN not in {peek(second.inputs, "data", key) for key in ("id", "uid")}
