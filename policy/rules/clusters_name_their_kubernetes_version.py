"""A cluster says which minor version of Kubernetes it runs; without, EKS takes its newest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type
from policy.estate import Estate
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity
from policy.versions import Exactness, is_kubernetes_minor

_COMPONENT: Final = "eks-component.Cluster"
_CLUSTER: Final = "eks.Cluster"
_MINOR: Final = Exactness(
    is_exact=is_kubernetes_minor,
    missing="is missing, which means the newest Kubernetes that EKS offers",
    loose="is not a minor version of Kubernetes",
    remedy="give one such as 1.36",
)


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if aws_type(resource.type) == _COMPONENT and not resource.properties:
        return  # a component of another process; the cluster in it is judged
    yield from _MINOR.faults("version", resource.properties.get("version"))


RULE: Final = Rule(
    code="P4",
    name="clusters-name-their-kubernetes-version",
    description="Every cluster names the minor version of Kubernetes that it runs.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write the minor version of Kubernetes; raise it by a reviewed change.",
    references=("https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",),
    applies=lambda token: aws_type(token) in {_CLUSTER, _COMPONENT},
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
