"""What a node keeps for itself, so that a plan never promises memory that no pod can get.

Source: the kubelet reservations that the EKS AMI computes, awslabs/amazon-eks-ami
(``nodeadm`` kubelet defaults): 255 MiB + 11 MiB per pod of memory, hard eviction at 100 MiB, and
6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the rest.
"""

from __future__ import annotations

KUBELET_BASE_MIB = 255
KUBELET_PER_POD_MIB = 11
EVICTION_MIB = 100
CPU_RESERVE_PERMILLE = (60, 10, 5, 5)
CPU_RESERVE_REST_PERMILLE = 2.5


def allocatable_memory_mib(host_memory_gib: int, max_pods: int) -> int:
    """MiB of host memory that pods may request on one node."""
    reserved = KUBELET_BASE_MIB + KUBELET_PER_POD_MIB * max_pods + EVICTION_MIB
    return host_memory_gib * 1024 - reserved


def allocatable_cpu_millicores(vcpus: int) -> int:
    """Thousandths of a processor that pods may request on one node."""
    first = sum(CPU_RESERVE_PERMILLE[:vcpus])
    rest = CPU_RESERVE_REST_PERMILLE * max(0, vcpus - len(CPU_RESERVE_PERMILLE))
    return int(vcpus * 1000 - first - rest)
