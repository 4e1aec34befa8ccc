"""How fast weights are read from each kind of storage by one node, in MiB/s (2**20 bytes).

The range of a kind runs from what engines were seen to read with their default loader to what the
storage or a better loader reaches. It says what to expect; a plan uses the measured rate that the
environment gives.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StorageKind:
    """One kind of storage, and the range of rates at which one node reads from it."""

    name: str
    slow_mib_per_second: int
    fast_mib_per_second: int
    source: str


STORAGE_KINDS = (
    StorageKind(
        name="local NVMe",
        slow_mib_per_second=1547,
        fast_mib_per_second=3608,
        source="Llama-2-13b, 26.03 GB on an A100 from NVMe: 16.04 s with the default safetensors "
        "loader, 6.88 s with fastsafetensors; vllm-project/vllm pull request 10647, 2024-11-26",
    ),
    StorageKind(
        name="EBS gp3",
        slow_mib_per_second=125,
        fast_mib_per_second=2000,
        source="range of the throughput that may be provisioned, EC2 API CreateVolume "
        "(docs.aws.amazon.com), read 2026-11-29",
    ),
    StorageKind(
        name="EFS elastic",
        slow_mib_per_second=355,
        fast_mib_per_second=1500,
        source="894 GiB in 43 minutes on p5en.48xlarge, modelplaneai/modelplane issue 204, "
        "2026-06-18; the limit of one client, docs.aws.amazon.com/efs/latest/ug/performance.md",
    ),
)
