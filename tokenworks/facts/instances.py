"""GPU instance types: shapes as the EC2 API reports them.

Source of ``gpu_instances.csv``: the instance type reference of the Karpenter documentation
(aws/karpenter-provider-aws, ``website/content/en/preview/reference/instance-types.md`` at
1d927085), compute capabilities from developer.nvidia.com/cuda-gpus; read 2026-11-29.
Memory columns are MiB and GiB (2**20, 2**30 bytes).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tokenworks.facts.gpus import Gpu


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One instance type: GPUs and how they are joined, processors, host memory."""

    name: str
    gpu: str
    gpu_count: int
    gpu_memory_mib: int
    compute_capability: str
    interconnect: str
    vcpus: int
    host_memory_gib: int
    max_pods: int


@cache
def instances() -> dict[str, Instance]:
    """Every known instance type that has at least one whole GPU, by name."""
    text = resources.files(__package__).joinpath("gpu_instances.csv").read_text("utf-8")
    rows = (row for row in csv.DictReader(text.splitlines()) if int(row["gpu_count"]) > 0)
    return {row["instance"]: _instance(row) for row in rows}


def _instance(row: dict[str, str]) -> Instance:
    return Instance(
        name=row["instance"],
        gpu=row["gpu"],
        gpu_count=int(row["gpu_count"]),
        gpu_memory_mib=int(row["gpu_mem_mib_api"]),
        compute_capability=row["compute_capability"],
        interconnect=row["interconnect"],
        vcpus=int(row["vcpu"]),
        host_memory_gib=int(row["ram_gib"]),
        max_pods=int(row["max_pods_vpc_cni"]),
    )


KUBELET_MAX_PODS = 110
"""The kubelet's default (kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1)."""


def machine(
    name: str, gpu: Gpu, gpu_count: int, processors: int, host_memory_gib: int
) -> Instance | None:
    """The shape of a machine that is described; what all with its GPU share is taken from those."""
    alike = next((one for one in instances().values() if one.gpu == gpu.name), None)
    if alike is None:
        return None
    return Instance(
        name=name,
        gpu=gpu.name,
        gpu_count=gpu_count,
        gpu_memory_mib=alike.gpu_memory_mib,
        compute_capability=alike.compute_capability,
        interconnect=gpu.link if gpu_count > 1 else "none",
        vcpus=processors,
        host_memory_gib=host_memory_gib,
        max_pods=KUBELET_MAX_PODS,
    )
