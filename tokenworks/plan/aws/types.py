"""What is decided about an AWS environment: plain data from which thin components create it.

What is known only after deployment (ids, ARNs of keys) stands in policy documents as ``${name}``;
the component that has it fills it in. Everything else, account and region included, is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

from tokenworks.plan.types import Decided, GivenCertificate

SubnetRole = Literal["nodes", "access", "public"]
"""``nodes``: nodes and pods; ``access``: control plane, endpoints, file system, load balancer;
``public``: NAT gateways."""


@dataclass(frozen=True, kw_only=True)
class SubnetPlan:
    """One subnet in one zone."""

    name: str
    role: SubnetRole
    zone_id: str
    cidr: str
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class EndpointPlan:
    """One VPC endpoint: a gateway in route tables, or an interface in the access subnets."""

    service: str
    kind: Literal["Gateway", "Interface"]
    policy: Mapping[str, object] | None


@dataclass(frozen=True, kw_only=True)
class FirewallRule:
    """One rule of a security group of ours; ``peer`` is a CIDR or the name of a group of ours."""

    group: str
    direction: Literal["ingress", "egress"]
    protocol: str
    ports: tuple[int, int] | None
    peer: str
    because: str


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """VPC, subnets, ways out and in.

    ``egress`` is ``none`` (endpoints only), ``nat`` (a NAT gateway for each zone), or the id of a
    transit gateway to which everything else is routed. ``transit_gateway`` is there whenever one is
    attached, also where it is no way to the internet; ``routed_cidrs`` are routed to it.
    """

    cidr: str
    subnets: tuple[SubnetPlan, ...]
    endpoints: tuple[EndpointPlan, ...]
    egress: Decided[str]
    transit_gateway: str | None
    routed_cidrs: tuple[str, ...]
    security_groups: Mapping[str, str]
    rules: tuple[FirewallRule, ...]
    flow_log_retention_days: int
    flow_log_role: RolePlan


@dataclass(frozen=True, kw_only=True)
class RolePlan:
    """One IAM role; ``trust`` and ``policies`` are documents with ``${name}`` for late values."""

    name: str
    trust: Mapping[str, object]
    managed_policies: tuple[str, ...]
    policies: Mapping[str, Mapping[str, object]]
    because: str


@dataclass(frozen=True, kw_only=True)
class KeyPlan:
    """One KMS key with its alias and key policy."""

    name: str
    alias: str
    policy: Mapping[str, object]
    description: str


@dataclass(frozen=True, kw_only=True)
class FileSystemPlan:
    """Where weights lie: FSx for Lustre or EFS, one static volume for every claim.

    ``zone_id``, ``deployment_type``, ``lustre_version`` and the throughput (MB/s for each TiB, as
    FSx counts) are None for EFS, which lies in every zone and grows by itself.
    """

    kind: Literal["fsx-lustre", "efs"]
    zone_id: str | None
    deployment_type: Literal["PERSISTENT_2"] | None
    lustre_version: str | None
    capacity_gib: Decided[int]
    throughput_mb_per_second_per_tib: Decided[int] | None
    mount_options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StoragePlan:
    """Keys, the weights bucket and the file system; ``protected`` guards them against deletion."""

    keys: tuple[KeyPlan, ...]
    bucket: str
    bucket_policy: Mapping[str, object]
    file_system: FileSystemPlan
    protected: bool


@dataclass(frozen=True, kw_only=True)
class ImagePlan:
    """One machine image made by the host roles; ``digest`` is over roles, lock, settings, base.

    ``name`` ends with the first digits of ``digest``; ``pools`` are those whose nodes start it.
    """

    name: str
    pools: tuple[str, ...]
    digest: str
    lock_name: str
    base_image: str
    builder_instance: str
    zone_id: str
    root_volume_gib: int


@dataclass(frozen=True, kw_only=True)
class AddOnPlan:
    """One EKS add-on at an exact version; ``configuration`` is canonical JSON, or empty."""

    name: str
    version: str
    configuration: str
    before_nodes: bool
    role: str | None
    service_account: str | None


@dataclass(frozen=True, kw_only=True)
class AccessPlan:
    """Who may do what in the cluster's API."""

    principal: str
    policy: str
    namespaces: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PodRolePlan:
    """A role that pods of one service account take by Pod Identity."""

    role: RolePlan
    namespace: str
    service_account: str


@dataclass(frozen=True, kw_only=True)
class EksPlan:
    """The control plane."""

    name: str
    version: str
    support_ends: date
    service_cidr: str
    log_types: tuple[str, ...]
    log_retention_days: int
    role: RolePlan
    node_role: RolePlan
    add_ons: tuple[AddOnPlan, ...]
    pod_roles: tuple[PodRolePlan, ...]
    access: tuple[AccessPlan, ...]
    deployer_role: str
    protected: bool


@dataclass(frozen=True, kw_only=True)
class InterfacePlan:
    """One network interface of a node."""

    card: int
    device: int
    kind: Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True, kw_only=True)
class CapacityPlanned:
    """How a group's instances are had: on demand, from a reservation, or from a capacity block."""

    kind: Literal["ON_DEMAND", "RESERVATION", "CAPACITY_BLOCK"]
    reservation: str | None


@dataclass(frozen=True, kw_only=True)
class NodeGroupPlan:
    """One managed node group: one instance type in one zone.

    ``image`` is the name of an ImagePlan, or None where AWS's own image at ``release_version`` is
    used. ``user_data`` is MIME text; with an image of ours it names what the cluster answers as
    ``${cluster_endpoint}`` and ``${cluster_certificate_authority}``, with AWS's image EKS adds
    that itself. ``placement_group`` is the name of a cluster placement group to create, if any.
    ``update_strategy`` MINIMAL ends a node before its successor starts: nobody has spare GPUs.
    """

    name: str
    pool: str
    instance: str
    zone_id: str
    nodes: int
    minimum: int
    maximum: int
    capacity: CapacityPlanned
    image: str | None
    ami_type: str | None
    release_version: str | None
    user_data: str
    interfaces: tuple[InterfacePlan, ...]
    placement_group: str | None
    root_volume_gib: int
    max_pods: Decided[int]
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    repair: bool
    max_unavailable: int
    update_strategy: Literal["DEFAULT", "MINIMAL"]


@dataclass(frozen=True, kw_only=True)
class ChartPlan:
    """One Helm chart: ``chart`` is the https address of its archive, ``digest`` its SHA-256.

    ``digest`` starts with ``sha256:``; whoever installs the chart compares the archive with it.
    ``images`` are the references that its values name, each by digest.
    """

    name: str
    chart: str
    version: str
    digest: str
    namespace: str
    values: Mapping[str, object]
    images: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BalancerPlan:
    """The internal load balancer before the gateway.

    ``source_ranges`` may call it (``spec.loadBalancerSourceRanges``); ``seen_ranges`` are the
    addresses from which the gateway's pods then see connections, for their NetworkPolicy.
    """

    class_name: str
    annotations: Mapping[str, str]
    source_ranges: tuple[str, ...]
    seen_ranges: tuple[str, ...]
    preserves_client_address: Decided[bool]


@dataclass(frozen=True, kw_only=True)
class StatePlan:
    """Where Pulumi keeps its state, and what encrypts its secrets; outside of every stack."""

    bucket: str
    key_alias: str

    def backend_url(self, region: str) -> str:
        """The backend's URL for ``pulumi login``."""
        return f"s3://{self.bucket}?region={region}"

    def secrets_provider(self, region: str) -> str:
        """The secrets provider's URL for ``pulumi stack init``."""
        return f"awskms://{self.key_alias}?region={region}"


@dataclass(frozen=True, kw_only=True)
class QuotaNeed:
    """What one service quota must allow, beyond what the account uses already."""

    service: str
    code: str
    name: str
    needed: int
    unit: str
    because: str


@dataclass(frozen=True, kw_only=True)
class CostPart:
    """What one part costs by the hour, or None where no price with a source is known."""

    part: str
    count: int
    usd_per_hour: Decimal | None
    source: str


@dataclass(frozen=True, kw_only=True)
class AwsPlan:
    """Everything decided about the cloud that an environment stands on.

    ``builder_role`` is of the machines that images are made on, and ``transfer_bucket`` is where
    Ansible's SSM connection puts modules for them. ``images`` is empty where every pool starts
    AWS's own. ``certificate`` is None where an issuer in the cluster signs one.
    """

    account: str
    region: str
    zones: tuple[str, ...]
    tags: Mapping[str, str]
    state: StatePlan
    network: NetworkPlan
    storage: StoragePlan
    images: tuple[ImagePlan, ...]
    builder_role: RolePlan
    transfer_bucket: str
    transfer_bucket_policy: Mapping[str, object]
    cluster: EksPlan
    node_groups: tuple[NodeGroupPlan, ...]
    charts: tuple[ChartPlan, ...]
    balancer: BalancerPlan
    certificate: GivenCertificate | None
    quotas: tuple[QuotaNeed, ...]
    costs: tuple[CostPart, ...]
    notes: tuple[str, ...]
