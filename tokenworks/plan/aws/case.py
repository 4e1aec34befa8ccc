"""One AWS environment as the parts of its plan see it: what was asked, and what follows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.facts.aws_versions import KubernetesSupport, kubernetes_versions
from tokenworks.naming import cluster_name, content_hash
from tokenworks.plan.types import PoolPlan, WeightsPlan

ENVIRONMENT_TAG = "tokenworks:environment"
LONGEST_BUCKET_PART = 25


@dataclass(frozen=True, kw_only=True)
class AwsCase:
    """The environment, its AWS section, and what other parts of the plan have decided.

    ``weights`` are those of every model by its name; ``roles_digest`` is over the Ansible roles
    and all else that decides what they do.
    """

    loaded: LoadedEnvironment
    section: Aws
    lock: Lock
    pools: Sequence[PoolPlan]
    system_nodes: int
    weights: Mapping[str, WeightsPlan]
    weights_read_mib_per_second: int
    roles_digest: str

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self.loaded.name

    @property
    def prefix(self) -> str:
        """What every name starts with; also the cluster's own name."""
        return cluster_name(self.environment)

    @property
    def partition_root(self) -> str:
        """What ARNs of regional resources of this account start with, up to the service."""
        return f"{self.section.region}:{self.section.account}"

    @property
    def support(self) -> KubernetesSupport:
        """What is known of the Kubernetes version; that it is known was checked before."""
        return kubernetes_versions()[self.section.kubernetes_version]

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a regional resource of this account."""
        return f"arn:aws:{service}:{self.partition_root}:{resource}"

    def role_arn(self, name: str) -> str:
        """The ARN of a role of this account."""
        return f"arn:aws:iam::{self.section.account}:role/{name}"

    def bucket(self, what: str) -> str:
        """A bucket's name, which must be alone in the world and at most 63 characters."""
        mark = content_hash([self.section.account, self.section.region, self.environment])
        return f"tokenworks-{self.environment[:LONGEST_BUCKET_PART].rstrip('-')}-{what}-{mark}"
