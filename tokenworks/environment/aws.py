"""The section of an AWS environment: account, network, access, and what is kept where."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.environment.aws_values import (
    Account,
    AddOnVersion,
    BucketName,
    Cidr,
    ImageId,
    KeyAlias,
    KubernetesVersion,
    PrincipalArn,
    Region,
    ReservationId,
    TransitGatewayId,
    ZoneId,
)
from tokenworks.environment.certificate import CertificateReference
from tokenworks.environment.section import Section
from tokenworks.environment.values import Switch

ANYWHERE = "0.0.0.0/0"


class TransitGateway(Section):
    """A transit gateway that exists, by which the network reaches others."""

    id: TransitGatewayId = Field(description="Its id; it must share itself with this account.")
    routes: Annotated[tuple[Cidr, ...], Field(min_length=1)] = Field(
        description="Networks behind it, such as those of callers and operators."
    )


class Network(Section):
    """The network that is made, who may come in, and how anything goes out."""

    cidr: Cidr = Field(description="Addresses of the whole network, from /16 to /20.")
    zones: tuple[ZoneId, ...] = Field(
        description="Ids of its zones, two to six; add others at the end, since each place in "
        "the list has its own addresses."
    )
    egress: Literal["none", "nat", "transit-gateway"] = Field(
        default="none",
        description="Way to the internet: none, a NAT gateway a zone, or the transit gateway.",
    )
    transit_gateway: TransitGateway | None = Field(
        default=None, description="The way to networks of yours."
    )
    callers: Annotated[tuple[Cidr, ...], Field(min_length=1)] = Field(
        description="Networks that may call the gateway."
    )
    operators: Annotated[tuple[Cidr, ...], Field(min_length=1)] = Field(
        description="Networks that may reach the Kubernetes API, such as that of the deployment."
    )
    service_cidr: Cidr = Field(
        default="172.20.0.0/16", description="Addresses of Kubernetes services, used inside only."
    )


class Access(Section):
    """Who may do what; nobody else has any rights in the cluster."""

    deployer: PrincipalArn = Field(
        description="Role that brings environments up; it administers the cluster."
    )
    readers: tuple[PrincipalArn, ...] = Field(
        default=(), description="Roles that may look at everything but Secrets."
    )


class WeightsFiles(Section):
    """The file system that holds the weights."""

    file_system: Literal["fsx-lustre", "efs"] = Field(
        default="fsx-lustre",
        description="fsx-lustre: fast, in one zone; efs: slower, in every zone.",
    )
    zone: ZoneId | None = Field(
        default=None, description="Zone of FSx for Lustre; left out, that of most GPU nodes."
    )


class SystemNodes(Section):
    """Nodes without GPUs, for the gateway and the cluster's own services."""

    instance: Annotated[str, Field(strict=True)] = Field(
        default="m7i.2xlarge", description="Instance type, of those in facts/aws_instances.csv."
    )


class State(Section):
    """Where Pulumi keeps the state of every stack; made once, before everything else."""

    bucket: BucketName = Field(description="Bucket with versions, in this region.")
    key_alias: KeyAlias = Field(description="Alias of the key that encrypts secrets in the state.")


class Aws(Section):
    """The AWS account, and everything in it that an environment stands on."""

    account: Account = Field(
        description="The account, 12 digits in quotes; any other is refused before anything else."
    )
    region: Region = Field(description="Region in which everything is made.")
    kubernetes_version: KubernetesVersion = Field(
        description="Minor version of Kubernetes, in quotes."
    )
    network: Network
    access: Access
    weights: WeightsFiles = Field(default=WeightsFiles(), description="Where weights lie.")
    system_nodes: SystemNodes = Field(
        default=SystemNodes(), description="Nodes without GPUs; their number follows."
    )
    add_on_versions: dict[str, AddOnVersion] = Field(
        default={},
        description="Versions of EKS add-ons by name, where others than the known ones are wanted.",
    )
    builder_base_image: ImageId | None = Field(
        default=None,
        description="Ubuntu's EKS image of this region, from which images are built for pools "
        "with a host_lock.",
    )
    certificate: CertificateReference | None = Field(
        default=None,
        description="What the gateway shows its callers; left out with gateway.certificate_issuer.",
    )
    state: State
    protected: Switch = Field(
        default=True,
        description="Whether data and cluster are guarded against deletion; taking them down then "
        "needs two deliberate steps.",
    )


class Capacity(Section):
    """Capacity that was reserved before, in one zone; left out, instances are had on demand."""

    zone: ZoneId = Field(description="Zone in which it was reserved, as its reservation says.")

    reservation: ReservationId | None = Field(
        default=None, description="An on-demand capacity reservation of the pool's instance type."
    )
    block: ReservationId | None = Field(
        default=None, description="A capacity block of the pool's instance type; it ends by itself."
    )
