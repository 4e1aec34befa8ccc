"""Machines that are described, held against instance types that are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tokenworks.facts.gpus import GPUS, Gpu, find_gpu
from tokenworks.facts.instances import KUBELET_MAX_PODS, Instance, instances, machine


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_is_found_by_its_name_as_it_is_sold_and_by_its_nodes_label(gpu: Gpu) -> None:
    for called in (gpu.name, gpu.sold_as, gpu.product, gpu.sold_as.lower()):
        assert find_gpu(called) == gpu


@pytest.mark.parametrize("called", ["", "H100-PCIe-80GB", "H100", "A100", "NVIDIA"])
def test_a_gpu_that_is_no_known_one_is_not_taken_for_one(called: str) -> None:
    assert find_gpu(called) is (GPUS["h100"] if called == "H100" else None)


@pytest.mark.parametrize(
    "shape",
    [one for one in instances().values() if one.gpu in GPUS and one.interconnect != "none"],
    ids=lambda one: one.name,
)
def test_a_machine_like_an_instance_type_is_planned_like_it(shape: Instance) -> None:
    described = machine(
        "mine", GPUS[shape.gpu], shape.gpu_count, shape.vcpus, shape.host_memory_gib
    )
    assert described == replace(shape, name="mine", max_pods=KUBELET_MAX_PODS)


def test_one_gpu_alone_has_no_links() -> None:
    alone = machine("mine", GPUS["h100"], 1, 16, 256)
    assert alone is not None
    assert alone.interconnect == "none"
