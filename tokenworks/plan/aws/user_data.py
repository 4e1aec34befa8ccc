"""What a node is told at its first start, as MIME text.

Labels are not in it: EKS sets those of a node group on its nodes, and a changed text would replace
every node. Taints are, since EKS sets them only after pods may have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from tokenworks.templating import render

NODE_CONFIG = "application/node.eks.aws"
SCRIPT = "text/x-shellscript; charset=us-ascii"
DNS_HOST = 10
"""EKS gives CoreDNS the tenth address of the services (docs.aws.amazon.com/eks)."""
Taints = Sequence[tuple[str, str, str]]


def amazon_linux(*, max_pods: int, taints: Taints, local_disks: bool, lustre: bool) -> str:
    """User data for AWS's AL2023 image, to which EKS adds the cluster's part.

    Local disks become one array that containers and their scratch lie on (``localStorage`` of
    awslabs/amazon-eks-ami, ``nodeadm/doc/api.md``).
    """
    config = render(
        "aws/node-config.yaml.j2",
        max_pods=max_pods,
        flags=_flags(taints),
        local_disks=local_disks,
    )
    scripts = [_part(SCRIPT, render("aws/lustre-client.sh.j2"))] if lustre else []
    return _mime([*scripts, _part(NODE_CONFIG, config)])


def ubuntu(*, cluster: str, service_cidr: str, max_pods: int, taints: Taints) -> str:
    """User data for an image on Ubuntu's EKS base, which has to be told everything.

    documentation.ubuntu.com/aws, deploy-managed-node-group.
    """
    script = render(
        "aws/bootstrap.sh.j2",
        cluster=cluster,
        dns_address=str(IPv4Network(service_cidr)[DNS_HOST]),
        flags=[f"--max-pods={max_pods}", *_flags(taints)],
    )
    return _mime([_part(SCRIPT, script)])


def _flags(taints: Taints) -> list[str]:
    spelt = ",".join(f"{key}={value}:{effect}" for key, value, effect in taints)
    return [f"--register-with-taints={spelt}"] if spelt else []


def _part(kind: str, text: str) -> dict[str, str]:
    return {"kind": kind, "text": text}


def _mime(parts: Sequence[dict[str, str]]) -> str:
    return render("aws/user-data.mime.j2", parts=parts)
