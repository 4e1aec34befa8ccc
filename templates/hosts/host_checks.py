"""The checks that a GPU host has to pass, in the order in which a fault shows.

Standard library only, Python 3.8 or newer. Each takes the gate's view of the host and returns a
finding; it raises ``SkipError`` where nothing was asked for, ``BrokeError`` where it cannot tell.
"""

import glob
import json
import os
import re

import host_gpu

ACS_CAPABILITY = 0x000D
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
        and (measured["loaded"] is None or measured["modules"] == gate.expect["modules"])
        and all(version == wanted for version in measured["libraries"])
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
    numbers = [int(n) for n in re.findall(r"NVRM: Xid \([^)]*\): (\d+)", log)]
    grave = sorted(set(numbers) - set(gate.limits["harmless_xids"]))
    remedy = (
        "look the number up in NVIDIA's Xid catalogue; drain the node, reset or replace the GPU"
    )
    return finding(not grave, grave, [], remedy)


def row_remap(gate):
    """No row of memory waits to be remapped, and none could not be."""
    rows = gate.rows("--query-remapped-rows=remapped_rows.pending,remapped_rows.failure")
    bad = [row for row in rows if not set(row) <= {"0", "No", "[N/A]", "N/A"}]
    remedy = "pending: reset the GPU or reboot; failure: replace the GPU"
    return finding(not bad, bad, [], remedy)


def ecc(gate):
    """Uncorrected memory errors since boot stay within the limit."""
    rows = gate.rows("--query-gpu=ecc.errors.uncorrected.volatile.total")
    counts = [int(row[0]) for row in rows if row[0].isdigit()]
    limit = gate.limits["max_uncorrected_ecc"]
    good = all(count <= limit for count in counts)
    return finding(good, counts, {"at most": limit}, "reset the GPU; if they return, replace it")


def pcie_width(gate):
    """Each GPU has all the lanes that it can have."""
    if not gate.limits["pcie_full_width"]:
        raise SkipError("gate.pcie_full_width is off")
    narrow = {}
    for path in gate.gpu_devices():
        now, most = (
            gate.host.word(path + "/" + n) for n in ("current_link_width", "max_link_width")
        )
        if not now or not most:
            raise BrokeError(f"the kernel tells no link width of {os.path.basename(path)}")
        if now != most:
            narrow[os.path.basename(path)] = {"lanes": now, "possible": most}
    return finding(not narrow, narrow, {}, "seat the card anew; check riser, slot and firmware")


def acs(gate):
    """PCIe access control is off between the GPUs, or peer-to-peer traffic takes a detour."""
    if not gate.limits["acs_off"]:
        raise SkipError("gate.acs_off is off")
    on = []
    for path in sorted(glob.glob(gate.host.path("sys/bus/pci/devices/*/config"))):
        with open(path, "rb") as file:
            if acs_control(file.read()):
                on.append(path.split("/")[-2])
    return finding(not on, on, [], "turn ACS off in the firmware, or with setpci at boot")


def acs_control(configuration):
    """Return the ACS control bits of a device's configuration space; 0 where it has none."""
    at, seen = 0x100, set()
    while at and at + 8 <= len(configuration) and at not in seen:
        seen.add(at)
        header = int.from_bytes(configuration[at : at + 4], "little")
        if header & 0xFFFF == ACS_CAPABILITY:
            return int.from_bytes(configuration[at + 6 : at + 8], "little") & 0x1D
        at = header >> 20
    return 0


def aer(gate):
    """The bus has reported no fatal error of a GPU."""
    fatal = {}
    for path in gate.gpu_devices():
        said = re.search(r"TOTAL_ERR_FATAL (\d+)", gate.host.word(path + "/aer_dev_fatal"))
        if said and int(said.group(1)):
            fatal[os.path.basename(path)] = int(said.group(1))
    return finding(not fatal, fatal, {}, "seat the card anew; if they return, replace it")


# --- Fabric ---------------------------------------------------------------------------------------


def fabric_state(gate):
    """Every GPU has joined the NVLink fabric."""
    if not gate.state["nvswitches"]:
        raise SkipError("there is no NVSwitch")
    states = [row[0] for row in gate.rows("--query-gpu=fabric.state")]
    good = bool(states) and all(state == "Completed" for state in states)
    return finding(good, states, "Completed", "see: journalctl -u nvidia-fabricmanager")


def nvlinks(gate):
    """No NVLink is inactive where there are NVSwitches."""
    if not gate.state["nvswitches"]:
        raise SkipError("there is no NVSwitch")
    said = gate.said("nvidia-smi", "nvlink", "--status")
    links = re.findall(r"Link \d+: (.+)", said)
    inactive = sum("inactive" in link for link in links)
    good = bool(links) and not inactive
    measured = {"links": len(links), "inactive": inactive}
    return finding(good, measured, {"inactive": 0}, "reset all GPUs at once; check the baseboard")


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
    wanted, known = cdi_wanted(listed), set(re.findall(r"UUID: ([\w-]+)", listed))
    names = {name for each in host_gpu.cdi_names(gate.host).values() for name in each}
    instances = {name for name in names if re.fullmatch(r"\d+:\d+", name)}
    identities = {name for name in names if name.startswith(("GPU-", "MIG-"))}
    gone = (instances - wanted) | (identities - known)
    measured = {"missing": sorted(wanted - names), "gone": sorted(gone)}
    remedy = "run: systemctl restart nvidia-cdi-refresh"
    return finding(not any(measured.values()), measured, {"missing": [], "gone": []}, remedy)


def cdi_wanted(listed):
    """Return the names that a specification must have: of GPUs, or of the parts of one."""
    gpus, instances, gpu = set(), set(), None
    for line in listed.splitlines():
        found = re.match(r"GPU (\d+):|\s+MIG .*Device\s+(\d+):", line)
        if found and found.group(1):
            gpu = found.group(1)
            gpus.add(gpu)
        elif found:
            instances.add(gpu + ":" + found.group(2))
    divided = {name.split(":")[0] for name in instances}
    return (gpus - divided) | instances | {"all"}


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
    answer = gate.host.run("dcgmi", "diag", "-r", str(level), "--json")
    try:
        report = json.loads(answer[1]) if answer else None
    except ValueError:
        report = None
    results = list(statuses(report))
    if not results:
        raise BrokeError("dcgmi gave no report; is datacenter-gpu-manager installed and running?")
    failed = sorted({name for name, status in results if status.lower().startswith("fail")})
    return finding(not failed, failed, [], f"run and heed: dcgmi diag -r {level}")


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
    said = gate.said(program, "-b", "256M", "-e", "256M", "-g", str(gate.state["gpus"]))
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
