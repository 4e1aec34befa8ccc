"""The API server of a cluster has no public address: EKS gives it one unless told otherwise.

A public endpoint beside a private one is public, and one for a few ranges is public to them. Who
needs that asks for a waiver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type, truth, unseen_inside
from policy.estate import Estate
from policy.resources import UNKNOWN, Resource, key_path, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

_COMPONENT: Final = "eks-component.Cluster"
_CLUSTER: Final = "eks.Cluster"
_REMEDY: Final = "set endpointPublicAccess: false and endpointPrivateAccess: true"
# Where providers keep the settings of the endpoint.
_SETTINGS: Final = ("vpcConfig", "resourcesVpcConfig")


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    if aws_type(resource.type) == _COMPONENT:
        if not resource.properties:
            yield from unseen_inside(resource, estate, _CLUSTER, _REMEDY)
            return
        keys: tuple[str, ...] = ()
    else:
        keys = (next((name for name in _SETTINGS if name in resource.properties), _SETTINGS[0]),)
    public = peek(resource.properties, *keys, "endpointPublicAccess")
    if truth(public) is not False:
        unknown = public is UNKNOWN
        yield Fault(
            key=key_path(*keys, "endpointPublicAccess"),
            given=public,
            reason="is missing, which means public"
            if public is None
            else f"{'may give' if unknown else 'gives'} the cluster's API server a public address",
            remedy=_REMEDY,
            verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
        )


RULE: Final = Rule(
    code="E7",
    name="cluster-endpoints-are-private",
    description="The API server of every cluster is reached by private addresses only.",
    family=Family.CLOUD,
    severity=Severity.HIGH,
    remediation="Turn the public endpoint off and the private one on; reach it through the VPC.",
    references=(
        "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/eks-controls.html#eks-1",
    ),
    applies=lambda token: aws_type(token) in {_CLUSTER, _COMPONENT},
    faults=_faults,
    tolerates_unknown_at_preview=False,
    joins=True,
)
