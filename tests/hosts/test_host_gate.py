"""The gate's checks on folders that stand for hosts: good, bad, and not to be told."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.fake_root import fake_host, host_gate
from tests.hosts.healthy import (
    CSV,
    DEVICE,
    DIVIDED,
    ECC,
    FABRIC,
    FULL,
    GENERATION,
    GPUS,
    LINKED,
    LOADED,
    ROWS,
    SMI,
    UNIT,
    examined,
    healthy_files,
    outcomes,
    spec,
)
from tokenworks.errors import UndecidableError
from tokenworks.hosts.checks import Outcome, judge, read_report
from tokenworks.hosts.files import gate_expectations
from tokenworks.hosts.settings import HostSettings

from .samples import DRIVER, lock


def test_a_healthy_host_passes_every_check_that_can_be_asked_for(tmp_path: Path) -> None:
    results = examined(tmp_path, settings=FULL)
    assert {result["outcome"] for result in results.values()} == {"passed"}, results
    assert host_gate.exit_status(list(results.values())) == 0


def test_checks_run_in_the_order_in_which_a_fault_shows(tmp_path: Path) -> None:
    groups = [result["group"] for result in examined(tmp_path).values()]
    order = ["inventory", "kernel", "memory", "bus", "fabric", "runtime", "diagnostic"]
    assert sorted(groups, key=order.index) == groups


def test_what_was_not_asked_for_is_skipped_and_says_so(tmp_path: Path) -> None:
    results = examined(tmp_path)
    assert outcomes(results, "skipped") == [
        "pcie_generation", "acs", "container", "dcgm", "nccl",
    ]  # fmt: skip
    assert results["dcgm"]["message"] == "gate.dcgm_level is 0"


def acs(bits: int) -> bytes:
    """A configuration space whose second extended capability is access control."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x200 << 20)
    struct.pack_into("<IHH", space, 0x200, 0x000D | 1 << 16, 0x5F, bits)
    return bytes(space)


FAILING: dict[str, tuple[str, dict[str, str | bytes], dict[str, str | tuple[int, str]]]] = {
    "a GPU that fell off the bus": ("gpus", {}, {"nvidia-smi -L": SMI[:45], "ctr": SMI[:45]}),
    "another driver in the kernel": (
        "driver",
        {"proc/driver/nvidia/version": LOADED.format("570.1.1")},
        {},
    ),
    "modules of the other flavour": (
        "driver",
        {"proc/driver/nvidia/version": LOADED.format(DRIVER).replace(" Open ", " ")},
        {},
    ),
    "another module on disk": ("driver", {}, {"modinfo": "570.1.1\n"}),
    "another library": ("driver", {"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.1": ""}, {}),
    "a second library": (
        "driver",
        {"usr/lib/i386-linux-gnu/libnvidia-ml.so.570.1": ""},
        {},
    ),
    "another kernel": ("driver", {"proc/sys/kernel/osrelease": "6.8.0-90-generic\n"}, {}),
    "no fabric manager": ("fabric_manager", {}, {"systemctl": ""}),
    "an Xid of the GPU's own": ("xid", {}, {"journalctl": "NVRM: Xid (PCI:0000:01:00): 119, x\n"}),
    "a row that waits to be remapped": ("row_remap", {}, {f"{ROWS} {CSV}": "1, 0\n0, 0\n"}),
    "a row that could not be remapped": ("row_remap", {}, {f"{ROWS} {CSV}": "No, Yes\nNo, No\n"}),
    "uncorrected memory errors": ("ecc", {}, {ECC: "0\n2\n"}),
    "half the lanes": ("pcie_width", {f"{DEVICE}/current_link_width": "8\n"}, {}),
    "a slot of an older generation": ("pcie_generation", {}, {GENERATION: "5\n4\n"}),
    "a slow NVLink": (
        "nvlinks",
        {},
        {"nvidia-smi nvlink --status": LINKED.replace("26.562", "25", 1)},
    ),
    "more NVLinks on one GPU than it has": (
        "nvlinks",
        {},
        {"nvidia-smi nvlink --status": LINKED + "\t Link 1: 26.562 GB/s\n"},
    ),
    "access control between GPUs": ("acs", {f"{DEVICE}/config": acs(0x1D)}, {}),
    "fatal errors of the bus": ("aer", {f"{DEVICE}/aer_dev_fatal": "TOTAL_ERR_FATAL 3\n"}, {}),
    "a GPU outside the fabric": ("fabric_state", {}, {FABRIC: "Completed\nIn Progress\n"}),
    "an inactive NVLink": (
        "nvlinks",
        {},
        {"nvidia-smi nvlink --status": LINKED.replace("26.562 GB/s", "<inactive>", 1)},
    ),
    "a GPU without NVLinks": (
        "nvlinks",
        {},
        {"nvidia-smi nvlink --status": LINKED.replace("\t Link 0: 26.562 GB/s\n", "", 1)},
    ),
    "an empty CDI specification": ("cdi", {"run/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n"}, {}),
    "MIG instances that the specification does not name": (
        "cdi",
        {},
        {"nvidia-smi -L": DIVIDED, "ctr": DIVIDED},
    ),
    "MIG instances that are gone": ("cdi", {"run/cdi/nvidia.yaml": spec(0, 1, "all", "1:0")}, {}),
    "an instance that was made anew": (
        "cdi",
        {"run/cdi/nvidia.yaml": spec(0, 1, "all", "GPU-0", "MIG-before")},
        {},
    ),
    "no nvidia runtime after merging": (
        "containerd",
        {},
        {"containerd config dump": "version = 3\n"},
    ),
    "a container that sees fewer GPUs": ("container", {}, {"ctr": ""}),
    "a failed diagnostic": (
        "dcgm",
        {},
        {"dcgmi": (226, '{"a": [{"name": "memory", "status": "Fail"}]}')},
    ),
    "a slow exchange": ("nccl", {}, {"/opt/all_reduce_perf": "# Avg bus bandwidth    : 88.1\n"}),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_a_fault_fails_its_check_and_says_what_to_do(case: str, tmp_path: Path) -> None:
    name, files, answers = FAILING[case]
    results = examined(tmp_path, files, answers, settings=FULL)
    assert outcomes(results, "failed") == [name], results
    assert results[name]["message"]
    assert host_gate.exit_status(list(results.values())) == 1


@pytest.mark.parametrize("device", ["nvidia-uvm", "nvidiactl", "nvidia1"])
def test_a_missing_device_file_fails_and_is_named(device: str, tmp_path: Path) -> None:
    results = examined(tmp_path, without=(f"dev/{device}",))
    assert outcomes(results, "failed") == ["device_nodes"]
    assert results["device_nodes"]["measured"] == [f"/dev/{device}"]


def test_a_divided_gpu_is_named_by_its_instances_and_not_by_itself(tmp_path: Path) -> None:
    named = spec("0:0", "0:1", "MIG-a", "MIG-b", 1, "GPU-1", "all")
    answers: dict[str, str | tuple[int, str]] = {"nvidia-smi -L": DIVIDED}
    results = examined(tmp_path, {"run/cdi/nvidia.yaml": named}, answers)
    assert results["cdi"]["outcome"] == "passed", results["cdi"]


def test_a_package_that_differs_or_is_not_held_fails(tmp_path: Path) -> None:
    status = str(healthy_files()["var/lib/dpkg/status"])
    other = status.replace(
        "Package: nvidia-utils-580\nStatus: hold", "Package: nvidia-utils-580\nStatus: install"
    )
    results = examined(tmp_path, {"var/lib/dpkg/status": other})
    assert results["packages"]["measured"] == {"differing": {}, "not held": ["nvidia-utils-580"]}
    assert outcomes(results, "failed") == ["packages"]


BREAKING: dict[str, tuple[str, ...]] = {
    "journalctl": ("xid",),
    "containerd config dump": ("containerd",),
    f"{DEVICE}/max_link_width": ("pcie_width",),
    "dcgmi": ("dcgm",),
    "ctr": ("container",),
    "/opt/all_reduce_perf": ("nccl",),
    "nvidia-smi nvlink --status": ("nvlinks",),
}


@pytest.mark.parametrize("missing", BREAKING)
def test_what_cannot_be_asked_is_broken_and_neither_good_nor_bad(
    missing: str, tmp_path: Path
) -> None:
    results = examined(tmp_path, without=(missing,), settings=FULL)
    assert tuple(outcomes(results, "broke")) == BREAKING[missing]
    assert outcomes(results, "failed") == []
    assert host_gate.exit_status(list(results.values())) == 3


def test_nvlinks_without_nvswitches_are_counted_where_a_number_is_asked_for(
    tmp_path: Path,
) -> None:
    """Such as bridges between two cards."""
    no_switch: dict[str, str | bytes] = {"sys/bus/pci/devices/0000:a1:00.0/vendor": "0x8086\n"}
    bare: dict[str, str | tuple[int, str]] = {
        "nvidia-smi nvlink --status": LINKED.replace("\t Link 0: 26.562 GB/s\n", "")
    }
    unasked = examined(tmp_path / "unasked", no_switch, bare)
    assert "nvlinks" in outcomes(unasked, "skipped")
    assert "nvlinks" in outcomes(examined(tmp_path / "asked", no_switch, settings=FULL), "passed")
    results = examined(tmp_path / "bare", no_switch, bare, settings=FULL)
    assert outcomes(results, "failed") == ["nvlinks"]
    assert results["nvlinks"]["measured"] == {"links": [0, 0], "inactive": 0, "slow": 0}


def test_an_error_within_a_check_is_no_pass(tmp_path: Path) -> None:
    results = examined(tmp_path, answers={"dcgmi": "{", "systemctl": (0, UNIT)}, settings=FULL)
    assert outcomes(results, "broke") == ["dcgm"]


def test_a_host_that_lost_all_its_gpus_fails_even_where_no_number_is_asked(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"sys/bus/pci/devices/0000:0{n}:00.0/vendor": "0x8086" for n in range(2)
    }
    results = examined(tmp_path, files, {"nvidia-smi -L": ""}, settings=HostSettings())
    assert results["gpus"]["outcome"] == "failed"


@pytest.mark.parametrize("loaded", [True, False])
def test_the_builder_of_an_image_is_held_against_the_lock_alone(
    loaded: bool, tmp_path: Path
) -> None:
    files: dict[str, str | bytes] = {
        f"sys/bus/pci/devices/0000:0{n}:00.0/vendor": "0x8086" for n in range(2)
    }
    without = () if loaded else ("proc/driver/nvidia/version",)
    results = examined(tmp_path, files, without=without, builder=True)
    asked = [name for name in results if name not in outcomes(results, "skipped")]
    assert asked == ["driver", "packages", "containerd"]
    assert outcomes(results, "passed") == asked


def test_a_builder_with_another_module_than_the_locked_one_makes_no_image(tmp_path: Path) -> None:
    results = examined(tmp_path, answers={"modinfo": "570.1.1\n"}, builder=True)
    assert outcomes(results, "failed") == ["driver"]


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., str]:
    def run(**settings: Any) -> str:
        fake_host(tmp_path / "root", healthy_files())
        expect = gate_expectations(lock(), HostSettings(expected_gpus=GPUS))
        (tmp_path / "expect.json").write_text(json.dumps(expect))
        arguments = ["--expect", str(tmp_path / "expect.json"), "--root", str(tmp_path / "root")]
        status = host_gate.main([*arguments, "--output", str(tmp_path / "report.json")])
        text = (tmp_path / "report.json").read_text()
        assert json.loads(text)["exit_status"] == status
        return text

    return run


def test_the_report_is_read_as_data_and_judged(
    report: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    read = read_report(report())
    assert read == read_report(capsys.readouterr().out)
    verdict = judge(read)
    assert verdict.exit_status == read.exit_status != 0
    assert all(check.outcome is Outcome.BROKE for check in verdict.broke)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"driver": "1", "exit_status": 0}'])
def test_a_report_that_cannot_be_read_decides_nothing(text: str) -> None:
    with pytest.raises(UndecidableError, match="journalctl -u tokenworks-gate"):
        read_report(text)


def test_a_report_without_checks_is_no_pass() -> None:
    empty = read_report('{"driver": "1", "exit_status": 0, "checks": []}')
    assert judge(empty).exit_status == 3
