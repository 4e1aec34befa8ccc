"""The rules pass every AWS program, and refuse each fault that is planted into one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from policy.resources import UNKNOWN, Resource
from policy.rule import Finding
from tests.components.aws.seen import WORKSPACE, Seen
from tokenworks.check.judge import Outcome, judge
from tokenworks.check.recorded import resources_of
from tokenworks.operations.check import check_workspace

LB = "service.beta.kubernetes.io/aws-load-balancer-"
Change = Callable[[dict[str, Any]], None]


def resources(seen: Seen) -> list[Resource]:
    return list(resources_of(seen.recordings.values()))


def plain(value: Any) -> Any:
    """The inputs as they may be changed, lists as lists."""
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    return [plain(child) for child in value] if isinstance(value, tuple) else value


def planted(seen: Seen, name: str, change: Change) -> Sequence[Finding]:
    """What the rules say once one resource is otherwise."""
    listed = resources(seen)
    (place,) = [i for i, one in enumerate(listed) if one.name == name and ":" in one.type[4:]]
    whole = plain(listed[place].properties)
    change(whole)
    read = Resource.of(listed[place].type, name, whole, urn=listed[place].urn)
    listed[place] = replace(listed[place], properties=read.properties)
    return judge(listed).findings


def setting(*keys: Any, to: Any) -> Change:
    def change(whole: dict[str, Any]) -> None:
        inner: Any = whole
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return change


def without(*keys: Any) -> Change:
    def change(whole: dict[str, Any]) -> None:
        inner: Any = whole
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return change


def test_every_program_passes(seen: Seen) -> None:
    judgement = judge(resources(seen))
    assert judgement.outcome is Outcome.GOOD, [str(one) for one in judgement.findings]
    assert judgement.judged > 200


def test_the_pull_request_check_knows_the_environment() -> None:
    judgement = check_workspace(WORKSPACE, ["example-aws"], datetime.date(2026, 11, 30))
    assert judgement.outcome is Outcome.GOOD, [str(one) for one in judgement.findings]


CLUSTER, GROUP, TEMPLATE = "control-plane-cluster", "l4-use1-az6-nodes", "l4-use1-az6-template"
SUBNET = "tokenworks-example-aws-nodes-use1-az6"
RULE = "control-plane-ingress-tcp-443-10.128.0.0_16"
WEIGHTS_RULE = "weights-ingress-tcp-988-nodes"
BLOCK = "h100-use1-az6-template"

FAULTS: list[tuple[str, str, Change, str]] = [
    (
        "the API server has a public address",
        CLUSTER,
        setting("vpcConfig", "endpointPublicAccess", to=True),
        "cluster-endpoints-are-private",
    ),
    (
        "nobody says whether the API server has one, which means yes",
        CLUSTER,
        without("vpcConfig", "endpointPublicAccess"),
        "cluster-endpoints-are-private",
    ),
    (
        "a public address for a few is a public address",
        CLUSTER,
        setting(
            "vpcConfig",
            to={
                "endpointPublicAccess": True,
                "endpointPrivateAccess": True,
                "publicAccessCidrs": ["198.51.100.0/24"],
            },
        ),
        "cluster-endpoints-are-private",
    ),
    (
        "whether it is public is not known yet",
        CLUSTER,
        setting("vpcConfig", "endpointPublicAccess", to=UNKNOWN),
        "cluster-endpoints-are-private",
    ),
    (
        "Kubernetes has no version",
        CLUSTER,
        without("version"),
        "clusters-name-their-kubernetes-version",
    ),
    (
        "Kubernetes is whichever is newest",
        CLUSTER,
        setting("version", to="latest"),
        "clusters-name-their-kubernetes-version",
    ),
    (
        "a security group lets everybody to every port",
        WEIGHTS_RULE,
        lambda whole: whole.update(
            ipProtocol="-1", cidrIpv4="0.0.0.0/0", referencedSecurityGroupId=None
        ),
        "engine-ports-admit-only-private-sources",
    ),
    (
        "a group opens an engine's port to the internet",
        RULE,
        lambda whole: whole.update(cidrIpv4="0.0.0.0/0", fromPort=8000, toPort=8000),
        "engine-ports-admit-only-private-sources",
    ),
    (
        "a range of ports hides an engine's",
        RULE,
        lambda whole: whole.update(cidrIpv4="203.0.113.0/24", fromPort=7000, toPort=9000),
        "engine-ports-admit-only-private-sources",
    ),
    (
        "the internet of the other protocol",
        RULE,
        lambda whole: whole.update(cidrIpv4=None, cidrIpv6="::/0", fromPort=0, toPort=65535),
        "engine-ports-admit-only-private-sources",
    ),
    (
        "machines are reached by SSH from anywhere",
        RULE,
        lambda whole: whole.update(cidrIpv4="0.0.0.0/0", fromPort=22, toPort=22),
        "only-web-ports-are-ever-public",
    ),
    (
        "the file system answers the internet",
        WEIGHTS_RULE,
        setting("cidrIpv4", to="0.0.0.0/0"),
        "only-web-ports-are-ever-public",
    ),
    (
        "nodes give their credentials to whoever asks",
        TEMPLATE,
        setting("metadataOptions", "httpTokens", to="optional"),
        "metadata-is-answered-by-token-only",
    ),
    (
        "nobody says who gets the credentials of nodes",
        TEMPLATE,
        without("metadataOptions"),
        "metadata-is-answered-by-token-only",
    ),
    (
        "the template's newest version",
        GROUP,
        setting("launchTemplate", "version", to="$Latest"),
        "launch-templates-are-used-by-number",
    ),
    (
        "the template's default version",
        GROUP,
        setting("launchTemplate", "version", to="$Default"),
        "launch-templates-are-used-by-number",
    ),
    (
        "no version of the template",
        GROUP,
        without("launchTemplate", "version"),
        "launch-templates-are-used-by-number",
    ),
    ("no release of the image", GROUP, without("releaseVersion"), "node-images-are-one-release"),
    (
        "half a release of the image",
        GROUP,
        setting("releaseVersion", to="1.36.2"),
        "node-images-are-one-release",
    ),
    (
        "an image by an alias that moves",
        TEMPLATE,
        setting(
            "imageId",
            to="resolve:ssm:/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/"
            "recommended/image_id",
        ),
        "node-images-are-one-release",
    ),
    (
        "an add-on without a version",
        "add-on-vpc-cni",
        without("addonVersion"),
        "add-ons-have-one-exact-version",
    ),
    (
        "an add-on at a version that EKS completes",
        "add-on-coredns",
        setting("addonVersion", to="v1.13"),
        "add-ons-have-one-exact-version",
    ),
    (
        "a public load balancer",
        "gateway-service",
        setting("metadata", "annotations", f"{LB}scheme", to="internet-facing"),
        "only-the-gateway-has-a-load-balancer",
    ),
    (
        "a load balancer of no scheme",
        "gateway-service",
        without("metadata", "annotations", f"{LB}scheme"),
        "only-the-gateway-has-a-load-balancer",
    ),
    (
        "a load balancer of the controller that knows no scheme",
        "gateway-service",
        without("spec", "loadBalancerClass"),
        "only-the-gateway-has-a-load-balancer",
    ),
    (
        "an engine with a load balancer of its own",
        "qwen3-32b-service",
        setting("spec", "type", to="LoadBalancer"),
        "only-the-gateway-has-a-load-balancer",
    ),
    (
        "a subnet of nodes gives them public addresses",
        SUBNET,
        setting("mapPublicIpOnLaunch", to=True),
        "gpu-nodes-have-no-public-addresses",
    ),
    (
        "a template gives nodes public addresses",
        BLOCK,
        setting(
            "networkInterfaces",
            to=[{"deviceIndex": 0, "associatePublicIpAddress": "true"}],
        ),
        "gpu-nodes-have-no-public-addresses",
    ),
    (
        "a chart of a range of versions",
        "aws-load-balancer-controller-release",
        lambda whole: whole.update(chart="aws-load-balancer-controller", version=">=3"),
        "charts-have-one-exact-version",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "rule"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_planted_fault_is_refused_by_its_rule(
    seen: Seen, name: str, change: Change, rule: str
) -> None:
    assert rule in {finding.rule for finding in planted(seen, name, change)}


def test_what_is_planted_is_all_that_is_refused(seen: Seen) -> None:
    """A fault that broke every rule would show nothing."""
    for _, name, change, rule in FAULTS[:4]:
        assert {finding.rule for finding in planted(seen, name, change)} == {rule}
