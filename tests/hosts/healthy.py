"""A host with two GPUs and an NVSwitch on which the gate finds nothing, and the gate run on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.hosts.fake_root import fake_host, host_gate
from tests.hosts.samples import DRIVER, KERNEL, lock
from tokenworks.hosts.files import gate_expectations
from tokenworks.hosts.settings import HostSettings

CASES = Path(__file__).parent / "cases"
GPUS = 2
LOADED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build\n"
SMI = "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n" for n in range(GPUS))
ROWS = "nvidia-smi --query-remapped-rows=remapped_rows.pending,remapped_rows.failure"
CSV = "--format=csv,noheader,nounits"
ECC = f"nvidia-smi --query-gpu=ecc.errors.uncorrected.volatile.total {CSV}"
GENERATION = f"nvidia-smi --query-gpu=pcie.link.gen.max {CSV}"
FABRIC = f"nvidia-smi --query-gpu=fabric.state {CSV}"
LINKED = "".join(f"GPU {n}: H100\n\t Link 0: 26.562 GB/s\n" for n in range(GPUS))
UNIT = "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=active\n"


MIG = "  MIG 3g.40gb     Device  {}: (UUID: MIG-{})\n"
DIVIDED = SMI.replace("GPU 1:", MIG.format(0, "a") + MIG.format(1, "b") + "GPU 1:")


def spec(*names: int | str) -> str:
    """A CDI specification with devices of these names, in both orders that nvidia-ctk has."""
    text = "cdiVersion: 0.7.0\nkind: nvidia.com/gpu\ndevices:\n"
    for name in names:
        quoted = f'"{name}"' if isinstance(name, int) else name
        text += f"    - name: {quoted}\n      containerEdits:\n        deviceNodes:\n"
        text += "            - path: /dev/nvidia0\n"
    return text.replace(
        '    - name: "1"\n      containerEdits:\n', '    - containerEdits:\n      name: "1"\n'
    )


def healthy_files() -> dict[str, str | bytes]:
    installed = "\n".join(
        f"Package: {name}\nStatus: hold ok installed\nVersion: {version}\n"
        for name, version in lock().versions.items()
    )
    files: dict[str, str | bytes] = {
        "var/lib/dpkg/status": installed,
        "proc/sys/kernel/osrelease": f"{KERNEL}\n",
        "proc/driver/nvidia/version": LOADED.format(DRIVER),
        f"lib/modules/{KERNEL}/x": "",
        f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}": "",
        "run/cdi/nvidia.yaml": spec(0, 1, "all"),
    }
    for number in range(GPUS):
        fields = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}
        fields |= {"current_link_width": "16", "max_link_width": "16"}
        fields |= {"aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0"}
        for name, text in fields.items():
            files[f"sys/bus/pci/devices/0000:0{number}:00.0/{name}"] = text + "\n"
    for name, text in {"vendor": "0x10de", "device": "0x22a3", "class": "0x068000"}.items():
        files[f"sys/bus/pci/devices/0000:a1:00.0/{name}"] = text + "\n"
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"):
        files[f"dev/{name}"] = ""
    return files


def healthy_answers() -> dict[str, str | tuple[int, str]]:
    return {
        "nvidia-smi -L": SMI,
        f"{ROWS} {CSV}": "0, 0\n0, 0\n",
        ECC: "0\n0\n",
        GENERATION: "5\n5\n",
        FABRIC: "Completed\nCompleted\n",
        "nvidia-smi nvlink --status": LINKED,
        "journalctl": "usb 1-1: new device\nNVRM: Xid (PCI:0000:01:00): 31, pid=7, MMU fault\n",
        "modinfo": f"{DRIVER}\n",
        "systemctl": UNIT,
        "containerd --version": "containerd github.com/containerd/containerd/v2 2.2.9 ",
        "containerd config dump": (CASES / "containerd-2.2.9.toml").read_text(),
        "dcgmi": json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [
            {"name": "software", "results": [{"status": "Pass"}]}]}]}}),
        "/opt/all_reduce_perf": "# Avg bus bandwidth    : 412.7 \n",
        "ctr": SMI,
    }  # fmt: skip


def examined(
    tmp_path: Path,
    files: dict[str, str | bytes] | None = None,
    answers: dict[str, str | tuple[int, str]] | None = None,
    *,
    without: tuple[str, ...] = (),
    settings: HostSettings | None = None,
    builder: bool = False,
) -> dict[str, Any]:
    """Results by check's name, of a healthy host with some things other."""
    asked = settings or HostSettings(expected_gpus=GPUS)
    says = {k: v for k, v in (healthy_answers() | (answers or {})).items() if k not in without}
    kept = {k: v for k, v in (healthy_files() | (files or {})).items() if k not in without}
    expect = json.loads(json.dumps(gate_expectations(lock(), asked)))
    gate = host_gate.Gate(fake_host(tmp_path, kept, says), expect, builder, pause=lambda _: None)
    results = host_gate.examine(gate)
    return {result["name"]: result for result in results}


def outcomes(results: dict[str, Any], outcome: str) -> list[str]:
    return [name for name, result in results.items() if result["outcome"] == outcome]


FULL = HostSettings(
    expected_gpus=GPUS,
    gate={  # type: ignore[arg-type]
        "acs_off": True,
        "pcie_min_generation": 5,
        "nvlinks_per_gpu": 1,
        "nvlink_min_gb_per_second": 26.5,
        "dcgm_level": 1,
        "nccl_test": "/opt/all_reduce_perf",
        "container_image": "example.org/cuda:1",
    },
)
DEVICE = "sys/bus/pci/devices/0000:00:00.0"
