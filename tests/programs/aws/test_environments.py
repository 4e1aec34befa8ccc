"""Every AWS environment that is planned can be registered, and passes the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.aws.graph import ROOT
from tests.components.aws.seen import WORKSPACE, Seen, cloud
from tokenworks.check.judge import Outcome, judge
from tokenworks.check.recorded import resources_of
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.planning import resolve_loaded

GOOD = ROOT / "tests" / "cases" / "environments" / "good"


@pytest.mark.parametrize("file", sorted(GOOD.glob("aws-*.yaml")), ids=lambda file: file.stem)
def test_it_is_registered_as_planned_and_passes(file: Path) -> None:
    plan = resolve_loaded(load_environment(file.stem, GOOD), read_lock(WORKSPACE.stacks))
    seen = Seen.of(plan)
    judgement = judge(list(resources_of(seen.recordings.values())))
    assert judgement.outcome is Outcome.GOOD, [str(one) for one in judgement.findings]
    known = cloud(plan)
    assert len(seen.kind("eks.NodeGroup")) == len(known.node_groups)
    assert len(seen.kind("eks.Addon")) == len(known.cluster.add_ons)
    assert len(seen.kind("ec2.Subnet")) == len(known.network.subnets)
    assert len(seen.kind("ec2.VpcEndpoint")) == len(known.network.endpoints)
    assert len(seen.kind("ec2.AmiFromInstance")) == len(known.images)
    rules = len(seen.kind("vpc.SecurityGroupIngressRule"))
    rules += len(seen.kind("vpc.SecurityGroupEgressRule"))
    assert rules == len(known.network.rules)
    ids = seen.recordings["image"].outputs["image_ids"]
    assert isinstance(ids, dict)
    assert set(ids) == {image.name for image in known.images}


@pytest.mark.parametrize(
    ("name", "made"), [("aws-images", "Secret"), ("aws-certificate-from-an-issuer", "Certificate")]
)
def test_a_certificate_is_given_or_signed_in_the_cluster(name: str, made: str) -> None:
    plan = resolve_loaded(load_environment(name, GOOD), read_lock(WORKSPACE.stacks))
    serving = Seen.of(plan).recordings["serving"].resources
    kinds = [one.type.rpartition(":")[2] for one in serving if one.name == "gateway-certificate"]
    assert kinds == [made]
