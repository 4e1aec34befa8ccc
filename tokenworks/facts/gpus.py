"""GPU products: what they are called on a node, and how much memory CUDA really sees.

``usable_gib`` is what an engine's own start-up log reports, not the catalogue figure: a card sold
as 24 GB (the EC2 API says 22.35 GiB) had 21.63 GiB free before anything was loaded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU product.

    ``product`` is the value of the node label ``nvidia.com/gpu.product`` that GPU Feature
    Discovery sets, ``sold_as`` model, form and gigabytes as NVIDIA's data sheets print them;
    ``link`` joins several in one machine: boards of SXM modules have NVSwitches. ``usable_gib`` is
    GiB (2**30 bytes) per GPU.
    """

    name: str
    product: str
    sold_as: str
    link: str
    family: str
    usable_gib: float
    source: str


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu(
            name="h100",
            product="NVIDIA-H100-80GB-HBM3",
            sold_as="H100-SXM-80GB",
            link="nvswitch",
            family="hopper",
            usable_gib=79.19,
            source="total reported by vLLM and TensorRT-LLM start-up logs on H100 80GB, 2026-11-29",
        ),
        Gpu(
            name="h200",
            product="NVIDIA-H200",
            sold_as="H200-SXM-141GB",
            link="nvswitch",
            family="hopper",
            usable_gib=140.06,
            source="total in NVIDIA/TensorRT-LLM issue 5872, 2026-11-29",
        ),
        Gpu(
            name="b200",
            product="NVIDIA-B200",
            sold_as="B200-SXM-192GB",
            link="nvswitch",
            family="blackwell",
            usable_gib=178.35,
            source="total in TensorRT-LLM 1.2 and 1.3 start-up logs (zufayu/ClaudeSkillsE2EPerf), "
            "2026-11-29",
        ),
        Gpu(
            name="l40s",
            product="NVIDIA-L40S",
            sold_as="L40S-PCIe-48GB",
            link="pcie",
            family="ada-lovelace",
            usable_gib=44.4,
            source="total in public vLLM start-up logs, 2026-11-29",
        ),
        Gpu(
            name="l4",
            product="NVIDIA-L4",
            sold_as="L4-PCIe-24GB",
            link="pcie",
            family="ada-lovelace",
            usable_gib=21.63,
            source="free before loading, SGLang on g6.12xlarge, didier-durand/llms-in-clouds "
            "docs/sglang.md at 2aa130c, 2026-11-29",
        ),
    )
}


def find_gpu(text: str) -> Gpu | None:
    """The GPU that people call so: by its name, as it is sold, or by the label of its node."""
    wanted = text.lower()
    names = {gpu: (gpu.name, gpu.sold_as.lower(), gpu.product.lower()) for gpu in GPUS.values()}
    return next((gpu for gpu, called in names.items() if wanted in called), None)
