"""Images: a builder without GPUs is brought to the lock, and each node proves its own at boot."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.ansible.debs import DRIVER, KERNEL
from tests.ansible.world import GPUS, Archive, Machine, Play

GATE = "/usr/local/lib/tokenworks/host_gate.py"


@pytest.fixture
def builder(machine: Machine) -> Machine:
    """A machine without GPUs that becomes the image of nodes that have some."""
    shutil.move(machine.root / "sys/bus/pci", machine.root / "root/pci")
    machine.write("proc/modules", "")
    settings = machine.settings.model_copy(update={"builds_image": True})
    return Machine(root=machine.root, settings=settings)


def boot_as_node(image: Machine) -> dict[str, object]:
    """The first boot of a node with GPUs: what its gate, which the kubelet waits for, wrote."""
    shutil.move(image.root / "root/pci", image.root / "sys/bus/pci")
    image.run("/usr/local/lib/stand-in/boot")
    unit = image.text("etc/systemd/system/tokenworks-gate.service")
    line = next(one for one in unit.splitlines() if one.startswith("ExecStart="))
    image.run(*line.removeprefix("ExecStart=").split(), status=None)
    report: dict[str, object] = json.loads(image.text("run/tokenworks/gate.json"))
    return report


def test_an_image_that_is_made_without_gpus_proves_those_of_each_node(
    builder: Machine, play: Play, published: Archive
) -> None:
    ran = play("prepare.yml", builder, published.lock())
    assert ran.status == 0, ran.message
    assert not (builder.root / "proc/driver/nvidia/version").exists()
    told = ran.tasks["kubelet_gate : Prove the GPUs"]["tokenworks"]["proof"]["checks"]
    asked = [check["name"] for check in told if check["outcome"] != "skipped"]
    assert asked == ["driver", "packages", "containerd"]
    assert play("prepare.yml", builder, published.lock()).changed == []
    assert (builder.root / "var/lib/stand-in/enabled/tokenworks-gate.service").exists()
    report = boot_as_node(builder)
    assert report["exit_status"] == 0, report
    assert f"  {DRIVER}  " in builder.text("proc/driver/nvidia/version")
    assert json.loads(builder.text("etc/tokenworks/gate.json"))["expected_gpus"] == GPUS


def test_a_node_of_the_image_whose_gpu_is_bad_stays_out(
    builder: Machine, play: Play, published: Archive
) -> None:
    assert play("prepare.yml", builder, published.lock()).status == 0
    builder.write("var/lib/stand-in/faults.json", '{"fallen": 1}')
    report = boot_as_node(builder)
    assert report["exit_status"] == 1


def test_an_image_whose_module_is_for_another_kernel_than_boots_is_not_made(
    builder: Machine, play: Play, published: Archive
) -> None:
    assert play("prepare.yml", builder, published.lock()).status == 0
    builder.run("rm", f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko")
    builder.run("depmod", KERNEL)
    ran = play("verify.yml", builder, published.lock())
    assert ran.status == 2
    assert f"kernel {KERNEL} has no module on disk, locked is {DRIVER}" in ran.message
