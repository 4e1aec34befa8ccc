"""Reading what exists of an environment's cluster, in the form in which Pulumi imports it."""

from __future__ import annotations

from collections.abc import Iterator

from tokenworks.aws.client import AwsError, Cloud
from tokenworks.aws.import_plan import Existing
from tokenworks.aws.target import ENVIRONMENT_TAG


def read_cluster(cloud: Cloud) -> Iterator[Existing]:
    """The control plane by its name, and what is in it if its tags prove it ours."""
    name = cloud.target.cluster
    try:
        found = cloud.call("eks", "describe_cluster", name=name)["cluster"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return
        raise
    ours = (found.get("tags") or {}).get(ENVIRONMENT_TAG) == cloud.target.environment
    known_as = frozenset({found["arn"]})
    yield Existing(
        type="aws:eks/cluster:Cluster", id=name, key=(name,), ours=ours, known_as=known_as
    )
    if ours:
        yield from _node_groups(cloud, name)
        yield from _add_ons(cloud, name)
        yield from _access(cloud, name)
        yield from _pod_identities(cloud, name)


def _node_groups(cloud: Cloud, cluster: str) -> Iterator[Existing]:
    """Groups have a prefix of ours and an end of AWS's; the tag has the planned name."""
    for group in cloud.pages("eks", "list_nodegroups", "nodegroups", clusterName=cluster):
        place = {"clusterName": cluster, "nodegroupName": str(group)}
        tags = cloud.call("eks", "describe_nodegroup", **place)["nodegroup"].get("tags") or {}
        ours = tags.get(ENVIRONMENT_TAG) == cloud.target.environment
        yield Existing(
            type="aws:eks/nodeGroup:NodeGroup",
            id=f"{cluster}:{group}",
            key=(tags.get("Name", ""),),
            ours=ours,
        )


def _add_ons(cloud: Cloud, cluster: str) -> Iterator[Existing]:
    for name in cloud.pages("eks", "list_addons", "addons", clusterName=cluster):
        key = (cluster, str(name))
        yield Existing(type="aws:eks/addon:Addon", id=":".join(key), key=key, ours=True)


def _access(cloud: Cloud, cluster: str) -> Iterator[Existing]:
    """Entries and what they allow; that of the nodes' role is EKS's own."""
    for principal in cloud.pages(
        "eks", "list_access_entries", "accessEntries", clusterName=cluster
    ):
        key = (cluster, str(principal))
        place = {"clusterName": cluster, "principalArn": str(principal)}
        tags = cloud.call("eks", "describe_access_entry", **place)["accessEntry"].get("tags") or {}
        if tags.get(ENVIRONMENT_TAG) != cloud.target.environment:
            continue
        yield Existing(type="aws:eks/accessEntry:AccessEntry", id=":".join(key), key=key, ours=True)
        listing = ("eks", "list_associated_access_policies", "associatedAccessPolicies")
        for policy in cloud.pages(*listing, **place):
            whole = (*key, policy["policyArn"])
            yield Existing(
                type="aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
                id="#".join(whole),
                key=whole,
                ours=True,
            )


def _pod_identities(cloud: Cloud, cluster: str) -> Iterator[Existing]:
    listing = ("eks", "list_pod_identity_associations", "associations")
    for one in cloud.pages(*listing, clusterName=cluster):
        yield Existing(
            type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
            id=f"{cluster},{one['associationId']}",
            key=(cluster, one["namespace"], one["serviceAccount"]),
            ours=True,
        )
