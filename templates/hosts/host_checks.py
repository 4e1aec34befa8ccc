"""The checks that a GPU host has to pass, in the order in which a fault shows.

Standard library only, Python 3.8 or newer. Each takes the gate's view of the host and returns a
finding; it raises ``SkipError`` where nothing was asked for, ``BrokeError`` where it cannot tell.
"""

import glob
import json
import os
import re

import host_gpu

# What nvidia-smi says where a GPU has no such thing, such as ECC on a GeForce.
NOT_THERE = {"N/A", "[N/A]"}
# `dcgmi diag -r 3` takes about a quarter of an hour (DCGM's documentation). Together with the next
# two it leaves room for everything else within the gate's unit.
DIAGNOSTIC_SECONDS = 1080
NCCL_SECONDS = 300
# Joining the fabric takes GPUs a while after the fabric manager has started.
FABRIC_LOOKS, FABRIC_PAUSE_SECONDS = 24, 5
PASSED, FAILED, BROKE, SKIPPED = "passed", "failed", "broke", "skipped"


class BrokeError(Exception):
    """The check could not be made."""


class SkipError(Exception):
    """The check was not asked for, or there is nothing to check."""


def finding(good, measured, expected, remedy):
    """Return one finding; the remedy is only told when it is not good."""
    return {
        "outcome": PASSED if good else FAILED,
        "measured": measured,
        "expected": expected,
        "message": "" if good else remedy,
    }


# --- Inventory ------------------------------------------------------------------------------------


def gpus(gate):
    """The GPUs on the bus are those that the driver sees, as many as there must be."""
    on_bus = gate.state["gpus"]
    wanted = gate.expect["expected_gpus"]
    wanted = on_bus if wanted is None else wanted
    listed = len(re.findall(r"^GPU \d+:", gate.said("nvidia-smi", "-L"), re.MULTILINE))
    measured = {"bus": on_bus, "driver": listed}
    good = on_bus == listed == wanted and wanted > 0
    remedy = "a GPU is missing: look for Xid errors and at its seat, power and riser; then reboot"
    return finding(good, measured, wanted, remedy)


def driver(gate):
    """Kernel, module on disk and library are one version, the locked one, in its flavour."""
    state, wanted = gate.state, gate.expect["driver"]
    measured = {
        "kernel": state["running_kernel"],
        "loaded": state["loaded_driver"],
        "modules": state["loaded_modules"],
        "module": state["module_versions"].get(state["running_kernel"]),
        "libraries": state["libraries"],
    }
    # Without a GPU the module cannot be loaded.
    loaded = (None, wanted) if gate.builder else (wanted,)
    good = (
        measured["kernel"] == gate.expect["kernel"]
        and measured["module"] == wanted
        and measured["loaded"] in loaded
        and list(measured["libraries"]) == [wanted]
        and (measured["loaded"] is None or measured["modules"] == gate.expect["modules"])
    )
    expected = {name: gate.expect[name] for name in ("kernel", "driver", "modules")}
    return finding(good, measured, expected, "run: tokenworks hosts prepare")


def packages(gate):
    """Every locked package is at its version and held."""
    wanted, present = gate.expect["packages"], gate.state["packages"]
    if not gate.state["nvswitches"]:
        wanted = {n: v for n, v in wanted.items() if n not in gate.expect["fabric_packages"]}
    wrong = {n: present.get(n) for n, v in sorted(wanted.items()) if present.get(n) != v}
    unheld = sorted(set(wanted) - set(gate.state["held"]))
    measured = {"differing": wrong, "not held": unheld}
    return finding(not wrong and not unheld, measured, {}, "run: tokenworks hosts prepare")


def fabric_manager(gate):
    """The fabric manager runs where there are NVSwitches."""
    if not gate.state["nvswitches"]:
        raise SkipError("there is no NVSwitch")
    running = gate.state["services"].get("nvidia-fabricmanager.service", "missing")
    remedy = "without it CUDA fails with error 802; see: journalctl -u nvidia-fabricmanager"
    return finding(running == "active", running, "active", remedy)


# --- Kernel, memory, bus --------------------------------------------------------------------------


def xid(gate):
    """The kernel has logged no error of a GPU since it started."""
    log = gate.said("journalctl", "--dmesg", "--boot", "--no-pager", "--output=cat")
    if log.strip() in ("", "-- No entries --"):
        raise BrokeError("journalctl has nothing from the kernel since it started")
    numbers = [int(n) for n in re.findall(r"NVRM: Xid \([^)]*\): (\d+)", log)]
    grave = sorted(set(numbers) - set(gate.limits["harmless_xids"]))
    remedy = (
        "look the number up in NVIDIA's Xid catalogue; drain the node, reset or replace the GPU"
    )
    return finding(not grave, grave, [], remedy)


def row_remap(gate):
    """No row of memory waits to be remapped, and none could not be."""
    rows = gate.rows("--query-remapped-rows=remapped_rows.pending,remapped_rows.failure")
    known("remapped rows", rows, lambda word: word.isdigit() or word in ("No", "Yes"))
    bad = [row for row in rows if not set(row) <= {"0", "No"} | NOT_THERE]
    remedy = "pending: reset the GPU or reboot; failure: replace the GPU"
    return finding(not bad, bad, [], remedy)


def ecc(gate):
    """Uncorrected memory errors since boot stay within the limit."""
    rows = gate.rows("--query-gpu=ecc.errors.uncorrected.volatile.total")
    known("memory errors", rows, str.isdigit)
    counts = [int(row[0]) for row in rows if row[0].isdigit()]
    limit = gate.limits["max_uncorrected_ecc"]
    good = all(count <= limit for count in counts)
    return finding(good, counts, {"at most": limit}, "reset the GPU; if they return, replace it")


def known(what, rows, readable):
    """Raise where a GPU says neither what can be read nor that it has no such thing."""
    words = {word for row in rows for word in row}
    strange = sorted(word for word in words - NOT_THERE if not readable(word))
    if strange:
        raise BrokeError(f"nvidia-smi says {', '.join(strange)} of {what}; see: nvidia-smi -q")


def pcie_width(gate):
    """Each GPU has all the lanes that it can have."""
    if not gate.limits["pcie_full_width"]:
        raise SkipError("gate.pcie_full_width is off")
    narrow = {}
    for path in gate.gpu_devices():
        now, most = (
            gate.host.word(path + "/" + n) for n in ("current_link_width", "max_link_width")
        )
        if not (now.isdigit() and most.isdigit() and int(most)):
            name = os.path.basename(path)
            raise BrokeError(
                f"the kernel tells no link width of {name}; where a virtual machine has none, set "
                "gate.pcie_full_width: false"
            )
        if now != most:
            narrow[os.path.basename(path)] = {"lanes": now, "possible": most}
    return finding(not narrow, narrow, {}, "seat the card anew; check riser, slot and firmware")


def pcie_generation(gate):
    """Each GPU can have the PCIe generation that it must; what it uses at rest is lower."""
    least = gate.limits["pcie_min_generation"]
    if least is None:
        raise SkipError("gate.pcie_min_generation names none")
    said = [row[0] for row in gate.rows("--query-gpu=pcie.link.gen.max")]
    if not all(map(str.isdigit, said)):
        raise BrokeError(f"nvidia-smi says {', '.join(said)} of PCIe generations")
    good = all(int(generation) >= least for generation in said)
    remedy = "look at the firmware's setting of the slot, and at riser and seat of the card"
    return finding(good, said, {"at least": least}, remedy)


def acs(gate):
    """PCIe access control is off between the GPUs, or peer-to-peer traffic takes a detour."""
    if not gate.limits["acs_off"]:
        raise SkipError("gate.acs_off is off")
    on = []
    for path in sorted(glob.glob(gate.host.path("sys/bus/pci/devices/*/config"))):
        with open(path, "rb") as file:
            if host_gpu.acs_control(file.read()):
                on.append(path.split("/")[-2])
    return finding(not on, on, [], "turn ACS off in the firmware, or with setpci at boot")


def aer(gate):
    """The bus has reported no fatal error of a GPU."""
    counted = {path: gate.host.word(path + "/aer_dev_fatal") for path in gate.gpu_devices()}
    if not any(counted.values()):
        raise SkipError("the kernel counts no errors of the bus here, as in a virtual machine")
    fatal = {}
    for path, text in counted.items():
        said = re.search(r"TOTAL_ERR_FATAL (\d+)", text)
        if not said:
            raise BrokeError(f"the kernel counts no errors of {os.path.basename(path)} alone")
        if int(said.group(1)):
            fatal[os.path.basename(path)] = int(said.group(1))
    return finding(not fatal, fatal, {}, "seat the card anew; if they return, replace it")


# --- Fabric ---------------------------------------------------------------------------------------


def fabric_state(gate):
    """Every GPU has joined the NVLink fabric."""
    if not gate.state["nvswitches"]:
        raise SkipError("there is no NVSwitch")
    for _ in range(FABRIC_LOOKS):
        states = [row[0] for row in gate.rows("--query-gpu=fabric.state")]
        if "In Progress" not in states:
            break
        gate.pause(FABRIC_PAUSE_SECONDS)
    good = all(state == "Completed" for state in states)
    return finding(good, states, "Completed", "see: journalctl -u nvidia-fabricmanager")


def nvlinks(gate):
    """Each GPU has its NVLinks, all active and none slow."""
    wanted, least = gate.limits["nvlinks_per_gpu"], gate.limits["nvlink_min_gb_per_second"]
    if not gate.state["nvswitches"] and wanted is None:
        raise SkipError("there is no NVSwitch, and gate.nvlinks_per_gpu names none")
    said = gate.said("nvidia-smi", "nvlink", "--status")
    gpus = re.split(r"^GPU \d+:", said, flags=re.MULTILINE)[1:]
    links = [re.findall(r"Link \d+: (.*\S)", gpu) for gpu in gpus]
    speeds = [link for gpu in links for link in gpu]
    strange = [s for s in speeds if not re.fullmatch(r"\d+(\.\d+)? GB/s|<inactive>", s)]
    if strange:
        raise BrokeError(f"nvidia-smi says {strange[0]} of an NVLink; see: nvidia-smi nvlink -e")
    inactive = speeds.count("<inactive>")
    slow = sum(float(s.split()[0]) < (least or 0) for s in speeds if s != "<inactive>")
    counts = [len(gpu) for gpu in links]
    whole = all(count == wanted if wanted else count for count in counts)
    good = len(links) == gate.state["gpus"] and whole and not inactive and not slow
    measured = {"links": counts, "inactive": inactive, "slow": slow}
    expected = {"links": wanted, "inactive": 0, "slow": 0}
    return finding(good, measured, expected, "reset all GPUs at once; check the baseboard")


# --- Runtime --------------------------------------------------------------------------------------


def device_nodes(gate):
    """The device files are there: one a GPU, the control device and unified memory's."""
    wanted = {"/dev/nvidiactl", "/dev/nvidia-uvm"}
    wanted |= {f"/dev/nvidia{number}" for number in range(gate.state["gpus"])}
    missing = sorted(wanted - set(gate.state["device_nodes"]))
    return finding(not missing, missing, [], "see: systemctl status tokenworks-gpu-devices")


def cdi(gate):
    """A CDI specification names each GPU or its MIG instances, and none that is gone."""
    listed = gate.said("nvidia-smi", "-L")
    wanted, known = host_gpu.cdi_wanted(listed), set(re.findall(r"UUID: ([\w-]+)", listed))
    names = {name for each in host_gpu.cdi_names(gate.host).values() for name in each}
    instances = {name for name in names if re.fullmatch(r"\d+:\d+", name)}
    identities = {name for name in names if name.startswith(("GPU-", "MIG-"))}
    gone = (instances - wanted) | (identities - known)
    measured = {"missing": sorted(wanted - names), "gone": sorted(gone)}
    remedy = "run: systemctl restart nvidia-cdi-refresh"
    return finding(not any(measured.values()), measured, {"missing": [], "gone": []}, remedy)


def containerd(gate):
    """containerd, after merging all its files, has the NVIDIA runtime and the systemd cgroup."""
    merged = gate.state["containerd"]
    if merged is None or not merged["merged"]:
        raise BrokeError("containerd cannot read its configuration; see: containerd config dump")
    missing = [
        f"{option} of runtime {runtime}"
        for runtime, option, value in gate.expect["containerd"]
        if merged["runtimes"].get(runtime, {}).get(option) != value
    ]
    if not merged["cdi"]:
        missing.append("enable_cdi")
    if "cri" in re.findall(r"[\w.]+", merged["disabled_plugins"]):
        missing.append("the CRI plugin, which is disabled")
    remedy = "another file overrides ours or is not imported; compare: containerd config dump"
    return finding(not missing, missing, [], remedy)


def container(gate):
    """A container sees the GPUs that the host sees."""
    image = gate.limits["container_image"]
    if not image:
        raise SkipError("gate.container_image names none")
    name = f"tokenworks-gate-{os.getpid()}"
    task = ("--device", "nvidia.com/gpu=all", image, name, "nvidia-smi", "-L")
    inside = gate.said("ctr", "--namespace", "k8s.io", "run", "--rm", *task)
    outside = gate.said("nvidia-smi", "-L")
    return finding(
        inside == outside, inside, outside, "compare the CDI specification with the host"
    )


# --- NVIDIA's own tests ---------------------------------------------------------------------------


def dcgm(gate):
    """NVIDIA's diagnostic finds nothing."""
    level = gate.limits["dcgm_level"]
    if not level:
        raise SkipError("gate.dcgm_level is 0")
    command = ("dcgmi", "diag", "-r", str(level), "--json")
    answer = gate.host.run(*command, seconds=DIAGNOSTIC_SECONDS)
    try:
        report = json.loads(answer[1]) if answer else None
    except ValueError:
        report = None
    results = [(name, status.lower()) for name, status in statuses(report)]
    if not results:
        raise BrokeError(
            f"dcgmi gave no report in {DIAGNOSTIC_SECONDS} s; is datacenter-gpu-manager installed "
            "and running?"
        )
    failed = sorted({name for name, status in results if status.startswith("fail")})
    if not failed:
        diagnosed(answer[0], results)
    return finding(not failed, failed, [], f"run and heed: dcgmi diag -r {level}")


def diagnosed(exit_status, results):
    """Raise where a diagnostic without a failure does not say that all is well either."""
    said = sorted({status for _, status in results})
    unknown = [s for s in said if s not in ("pass", "skip", "skipped", "warn", "not run")]
    if exit_status != 0 or unknown or "pass" not in said:
        raise BrokeError(f"dcgmi ended with {exit_status} and says no more than {', '.join(said)}")


def statuses(report, name=""):
    """Yield (test, status) wherever a report has a status."""
    if isinstance(report, dict):
        name = str(report.get("name", name))
        if isinstance(report.get("status"), str):
            yield name, report["status"]
        for value in report.values():
            yield from statuses(value, name)
    elif isinstance(report, list):
        for value in report:
            yield from statuses(value, name)


def nccl(gate):
    """GPUs exchange data at the bandwidth that they must have."""
    program = gate.limits["nccl_test"]
    if not program:
        raise SkipError("gate.nccl_test names no program")
    if gate.state["gpus"] < 2:
        raise SkipError("there are no two GPUs")
    task = ("-b", "256M", "-e", "256M", "-g", str(gate.state["gpus"]))
    said = gate.said(program, *task, seconds=NCCL_SECONDS)
    found = re.search(r"Avg bus bandwidth\s*:\s*([\d.]+)", said)
    if not found:
        raise BrokeError(f"{program} printed no bandwidth")
    measured, least = float(found.group(1)), gate.limits["nccl_min_gb_per_second"]
    remedy = "look at NVLink, ACS and the fabric manager; see: nvidia-smi topo -m"
    return finding(measured >= least, measured, {"at least": least}, remedy)


CHECKS = (
    ("inventory", gpus),
    ("inventory", driver),
    ("inventory", packages),
    ("inventory", fabric_manager),
    ("kernel", xid),
    ("memory", row_remap),
    ("memory", ecc),
    ("bus", pcie_width),
    ("bus", pcie_generation),
    ("bus", acs),
    ("bus", aer),
    ("fabric", fabric_state),
    ("fabric", nvlinks),
    ("runtime", device_nodes),
    ("runtime", cdi),
    ("runtime", containerd),
    ("runtime", container),
    ("diagnostic", dcgm),
    ("diagnostic", nccl),
)
WITHOUT_GPUS = (driver, packages, containerd)
