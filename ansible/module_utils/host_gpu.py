"""GPUs, their driver and the container runtime of a host, read as they are.

Standard library only, Python 3.8 or newer: it runs on the host itself.
"""

import glob
import os
import re

NVIDIA = "0x10de"
ACS_CAPABILITY = 0x000D
PROC_DRIVER = "proc/driver/nvidia/version"
UNITS = (
    "containerd.service",
    "kubelet.service",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-cdi-refresh.path",
    "nvidia-cdi-refresh.service",
    "nvidia-dcgm.service",
    "tokenworks-cdi.timer",
    "tokenworks-gpu-devices.service",
    "tokenworks-gate.service",
)


# --- The driver -----------------------------------------------------------------------------------


def pci(host, class_prefix):
    """Return addresses and device ids of NVIDIA's devices of one class."""
    found = {}
    for path in host.names("sys/bus/pci/devices/*"):
        of_class = host.word(path + "/class").startswith(class_prefix)
        if of_class and host.word(path + "/vendor") == NVIDIA:
            found[os.path.basename(path)] = host.word(path + "/device")
    return found


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


def loaded_driver(host):
    """Return the version of the driver in the kernel, None where none is loaded."""
    said = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", host.text(PROC_DRIVER) or "")
    return said.group(1) if said else None


def loaded_modules(host):
    """Return the flavour of the driver in the kernel: open, proprietary, or None without one.

    NVIDIA's open modules call themselves "Open Kernel Module" where the others say "Kernel Module".
    """
    if loaded_driver(host) is None:
        return None
    return "open" if "Open Kernel Module" in host.text(PROC_DRIVER) else "proprietary"


def module_versions(host):
    """Return the version of the nvidia module on disk, by kernel."""
    found = {}
    for path in host.names("lib/modules/*"):
        kernel = os.path.basename(path)
        said = host.asked("modinfo", "-b", host.root, "-k", kernel, "-F", "version", "nvidia")
        if said and said.strip():
            found[kernel] = said.strip().splitlines()[0]
    return found


def dkms(host):
    """Return such as {"580.1/6.8.0": "installed"}, from dkms's own folders."""
    found = {}
    for built in host.names("var/lib/dkms/nvidia/*/*/*/module"):
        version, kernel, machine = built.split("/")[-4:-1]
        link = host.path(f"var/lib/dkms/nvidia/kernel-{kernel}-{machine}")
        linked = os.path.islink(link) and version in os.readlink(link).split("/")
        found[version + "/" + kernel] = "installed" if linked else "built"
    for source in host.names("var/lib/dkms/nvidia/*/source"):
        version = source.split("/")[-2]
        if not any(name.startswith(version + "/") for name in found):
            found[version] = "added"
    return found


def gpu_users(host):
    """Return the processes that hold a GPU device file open, as "name (pid)"."""
    users = set()
    for link in glob.glob(host.path("proc/[0-9]*/fd/*")):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            pid = link.split("/")[-3]
            users.add("{} ({})".format(host.word(f"proc/{pid}/comm") or "process", pid))
    return sorted(users)


def in_pods(host, users):
    """Return those processes, of such as "name (pid)", whose control group is a pod's."""
    pids = {user: user.rsplit("(", 1)[1].rstrip(")") for user in users}
    return [user for user, pid in pids.items() if "kubepods" in host.word(f"proc/{pid}/cgroup")]


def libraries(host):
    """Return the versions of the management library on disk: what packages really brought.

    Debian's packages keep it in a folder that an alternative points to.
    """
    folders = ("usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/nvidia/current")
    paths = [path for folder in folders for path in host.names(folder + "/libnvidia-ml.so.*.*")]
    return sorted({path.split(".so.")[1] for path in paths})


# --- Containers -----------------------------------------------------------------------------------


def flat_toml(text):
    """Return dotted key → value text of what ``containerd config dump`` prints.

    That output has one key a line and lists on one line; this reads no more of TOML than that.
    """
    values, table = {}, ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            table = re.sub(r"""["']""", "", line.strip("[]").strip()) + "."
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            values[table + key.strip().strip("\"'")] = value.strip().strip("\"'")
    return values


def containerd(host):
    """Return containerd's version, its root file's schema and its merged settings; None without."""
    said = host.asked("containerd", "--version")
    version = re.search(r" v?(\d+\.\d+\.\d+)", said or "")
    if not version:
        return None
    root = host.text("etc/containerd/config.toml")
    schema = re.search(r"^\s*version\s*=\s*(\d+)", root or "", re.MULTILINE)
    dump = host.asked("containerd", "config", "dump")
    values = flat_toml(dump or "")
    runtimes = {}
    for key, value in values.items():
        found = re.search(
            r"\.containerd\.runtimes\.([^.]+)\.options\.(BinaryName|SystemdCgroup)", key
        )
        if found:
            runtimes.setdefault(found.group(1), {})[found.group(2)] = value
    return {
        "version": version.group(1),
        "root_present": root is not None,
        "root_schema": int(schema.group(1)) if schema else (1 if root is not None else None),
        "root_imports": re.findall(r"^\s*imports\s*=\s*(.+)$", root or "", re.MULTILINE),
        "merged": dump is not None,
        "imports": values.get("imports", ""),
        "disabled_plugins": values.get("disabled_plugins", ""),
        "cdi": first_ending(values, ".enable_cdi") == "true",
        "runtimes": runtimes,
        "drop_ins": host.names("etc/containerd/con*.d/*.toml"),
    }


def first_ending(values, ending):
    """Return the value of the first key with this ending."""
    return next((value for key, value in values.items() if key.endswith(ending)), None)


def cdi_specs(host):
    """Return the number of devices in each CDI specification of NVIDIA's."""
    return {path: len(names) for path, names in cdi_names(host).items()}


def cdi_names(host):
    """Return the names of the devices in each CDI specification of NVIDIA's."""
    found = {}
    for path in host.names("etc/cdi/*") + host.names("run/cdi/*") + host.names("var/run/cdi/*"):
        text = host.text(path) or ""
        if "nvidia.com/" in text:
            found[path.replace("/var/run/", "/run/")] = re.findall(
                r"""^\s+(?:- )?"?name"?: *["']?([^"',\s]+)""", text, re.MULTILINE
            )
    return found


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


def units(host, field):
    """Return a field of each unit of concern that exists, such as ActiveState."""
    said = host.asked("systemctl", "show", f"--property=Id,LoadState,{field}", *UNITS) or ""
    found = {}
    for paragraph in said.split("\n\n"):
        fields = dict(re.findall(r"^(\w+)=(.*)$", paragraph, re.MULTILINE))
        if fields.get("LoadState") == "loaded":
            found[fields.get("Id", "")] = fields.get(field, "unknown")
    return found


def enabled(host):
    """Return such as enabled or disabled of each unit of concern that exists.

    From the disk: ``systemctl show`` tells what systemd remembers from its last reload.
    """
    said = host.asked("systemctl", "list-unit-files", "--plain", "--no-legend", *UNITS) or ""
    words = (line.split() for line in said.splitlines())
    return {found[0]: found[1] for found in words if len(found) > 1}
