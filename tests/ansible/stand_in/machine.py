#!/usr/bin/python3
"""What a folder lacks to be a machine: systemd, a kernel, GPUs. Called by the name of a program.

Packages, apt, dpkg, containerd and nvidia-ctk are real; this answers for what needs a boot. It
behaves as the real ones do where the roles look: a module that was not built is not loaded, a
driver that is loaded stays until the next boot, units that are enabled start at one.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import uuid

UNITS = ("/lib/systemd/system/", "/etc/systemd/system/")
ACTIVE, ENABLED = "/var/lib/stand-in/active/", "/var/lib/stand-in/enabled/"
LOG = "/var/log/stand-in.log"
STARTING = "/run/starting"


def read(path, default=""):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return default


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def note(*words):
    with open(LOG, "a") as file:
        file.write(" ".join(words) + "\n")


def gpus():
    return len(glob.glob("/sys/bus/pci/devices/*:0?:00.0"))


def parts():
    """Return name and line of each GPU, or of the instances of one that is divided."""
    divided = json.loads(read("/var/lib/stand-in/mig.json", "{}"))
    found = []
    for gpu in map(str, range(gpus())):
        lines = [
            f"  MIG 1g.10gb     Device  {n}: (UUID: MIG-{gpu}-{n})"
            for n in range(divided.get(gpu, 0))
        ]
        found += [(f"{gpu}:{n}", line) for n, line in enumerate(lines)] or [(gpu, "")]
    return found


def kernel():
    return read("/proc/sys/kernel/osrelease").strip()


def module(release):
    done = subprocess.run(
        ["modinfo", "-b", "/", "-k", release, "-F", "version", "nvidia"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


# --- Kernel and driver ----------------------------------------------------------------------------


def load_driver():
    version = module(kernel())
    if "nouveau" in read("/proc/modules") or not version or not gpus():
        print("modprobe: FATAL: Module nvidia not found or no device", file=sys.stderr)
        return 1
    if not os.path.exists("/proc/driver/nvidia/version"):
        line = (
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        )
        write("/proc/driver/nvidia/version", line)
    return 0


def device_files():
    if os.path.exists("/proc/driver/nvidia/version"):
        for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{n}" for n in range(gpus()))):
            write("/dev/" + name, "")


def modprobe(*names):
    return load_driver() if {"nvidia"} & set(names) else 0


def dkms(verb, *options):
    release = options[options.index("-k") + 1] if "-k" in options else kernel()
    if json.loads(read("/var/lib/stand-in/faults.json", "{}")).get("dkms"):
        return 0
    for source in glob.glob("/usr/src/nvidia-*/nvidia.ko"):
        version = source.split("/")[3][len("nvidia-") :]
        if not os.path.isdir(f"/lib/modules/{release}/build"):
            print(
                f"Error! Your kernel headers for kernel {release} cannot be found.", file=sys.stderr
            )
            return 21 if verb == "autoinstall" else 1
        target = f"/lib/modules/{release}/updates/dkms/nvidia.ko"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
        tree = f"/var/lib/dkms/nvidia/{version}/{release}/x86_64"
        os.makedirs(tree + "/module", exist_ok=True)
        link = f"/var/lib/dkms/nvidia/kernel-{release}-x86_64"
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(f"{version}/{release}/x86_64", link)
        subprocess.run(["depmod", "-b", "/", release], stderr=subprocess.DEVNULL, check=False)
    return 0


def dkms_remove(version):
    for tree in glob.glob(f"/var/lib/dkms/nvidia/{version}/*/x86_64"):
        release = tree.split("/")[6]
        for path in glob.glob(f"/lib/modules/{release}/updates/dkms/nvidia.ko"):
            if module(release) == version:
                os.unlink(path)
                subprocess.run(
                    ["depmod", "-b", "/", release], stderr=subprocess.DEVNULL, check=False
                )
    shutil.rmtree(f"/var/lib/dkms/nvidia/{version}", ignore_errors=True)


def update_initramfs(*options):
    release = options[options.index("-k") + 1]
    write("/boot/initrd.img-" + release, "".join(map(read, sorted(glob.glob("/etc/modprobe.d/*")))))
    return 0


def grub_entry(title, release):
    return [f"menuentry '{title}' $menuentry_id_option 'gnulinux-{title}' {{",
            f"\tlinux\t/boot/vmlinuz-{release} root=/dev/vda ro", "}"]  # fmt: skip


def update_grub():
    releases = sorted((p.split("vmlinuz-")[1] for p in glob.glob("/boot/vmlinuz-*")), reverse=True)
    files = ["/etc/default/grub", *sorted(glob.glob("/etc/default/grub.d/*.cfg"))]
    settings = dict(re.findall(r'^(GRUB_\w+)="?([^"\n]*)', "".join(map(read, files)), re.MULTILINE))
    # As grub-mkconfig's 10_linux calls systems, and puts all kernels below the first entry.
    system = "Ubuntu" if "ID=ubuntu" in read("/etc/os-release") else "Debian GNU/Linux"
    each = [line for r in releases for line in grub_entry(f"{system}, with Linux {r}", r)]
    lines = [f'   set default="{settings.get("GRUB_DEFAULT", "0")}"']
    if settings.get("GRUB_DISABLE_SUBMENU") in ("y", "true"):
        lines += each
    else:
        advanced = f"Advanced options for {system}"
        lines += grub_entry(system, releases[0])
        lines += [f"submenu '{advanced}' $menuentry_id_option 'gnulinux-advanced' {{", *each, "}"]
    write("/boot/grub/grub.cfg", "\n".join(lines) + "\n")
    return 0


def boot_kernel():
    """The kernel of the entry that has the path asked for; of the first where none has it."""
    grub = read("/boot/grub/grub.cfg")
    default = re.search(r'set default="([^"]*)"', grub).group(1)
    submenu = re.search(r"^submenu '([^']+)'", grub, re.MULTILINE)
    found = re.findall(r"^menuentry '([^']+)'.*\n\tlinux\t/boot/vmlinuz-(\S+)", grub, re.MULTILINE)
    above = [submenu.group(1) + ">" if submenu and number else "" for number in range(len(found))]
    entries = {place + title: kernel for place, (title, kernel) in zip(above, found)}
    return entries.get(default, found[0][1])


def boot():
    """Start anew: another boot id, the kernel that boots, what its initial RAM disk allows."""
    release = boot_kernel()
    write("/proc/sys/kernel/random/boot_id", str(uuid.uuid4()) + "\n")
    write("/proc/sys/kernel/osrelease", release + "\n")
    shutil.rmtree("/run", ignore_errors=True)
    os.makedirs("/run/lock")
    for path in [*glob.glob("/dev/nvidia*"), "/proc/driver/nvidia/version"]:
        if os.path.exists(path):
            os.unlink(path)
    shutil.rmtree(ACTIVE, ignore_errors=True)
    free = "blacklist nouveau" in read("/boot/initrd.img-" + release)
    write("/proc/modules", "" if free else "nouveau 1 0 - Live 0x0\n")
    if "nvidia" in read("/etc/modules-load.d/tokenworks-gpu.conf") and module(release):
        load_driver()
    write(STARTING, "")
    if not json.loads(read("/var/lib/stand-in/faults.json", "{}")).get("slow_boot"):
        finish_boot()


def finish_boot():
    """Start what starts at boot: SSH answers before."""
    if os.path.exists(STARTING):
        os.unlink(STARTING)
        for unit in [*sorted(os.listdir(ENABLED)), "containerd.service"]:
            start(unit)


# --- systemd --------------------------------------------------------------------------------------


def exists(unit):
    return any(os.path.exists(folder + unit) for folder in UNITS)


def start(unit):
    if not exists(unit):
        return
    write(ACTIVE + unit, "")
    if unit == "tokenworks-gpu-devices.service":
        device_files()
    if unit.startswith("nvidia-cdi-refresh") and os.path.exists("/proc/driver/nvidia/version"):
        device_files()
        names = [n for n, _ in parts()] + ["all"]
        devices = "".join(f'    - containerEdits: {{}}\n      name: "{name}"\n' for name in names)
        write("/run/cdi/nvidia.yaml", "kind: nvidia.com/gpu\ndevices:\n" + devices)


def unit_fields(unit):
    return {
        "Id": unit,
        "LoadState": "loaded" if exists(unit) else "not-found",
        "ActiveState": "active" if os.path.exists(ACTIVE + unit) else "inactive",
    }


def show(units, options):
    wanted = next((o.split("=")[1].split(",") for o in options if "property" in o), None)
    paragraphs = [
        "".join(f"{k}={v}\n" for k, v in unit_fields(unit).items() if not wanted or k in wanted)
        for unit in units
    ]
    print("\n".join(paragraphs), end="")
    return 0


def start_all(units, verb):
    missing = [unit for unit in units if not exists(unit) and "*" not in unit]
    if missing:
        print(f"Failed to {verb} {missing[0]}: Unit not found.", file=sys.stderr)
        return 5
    if "nvidia-persistenced.service" in units and not gpus():
        print("nvidia-persistenced failed to initialize: no device", file=sys.stderr)
        return 1
    for unit in units:
        if verb != "try-restart" or os.path.exists(ACTIVE + unit):
            start(unit)
    return 0


def enable(units):
    for unit in units:
        if not exists(unit):
            print(f"Failed to enable unit: Unit file {unit} does not exist.", file=sys.stderr)
            return 1
        write(ENABLED + unit, "")
    return 0


def running(wait):
    """Say whether the boot is over, and let it end if that is waited for."""
    if wait:
        finish_boot()
    done = not os.path.exists(STARTING)
    print("degraded" if done else "starting")
    return 1


def systemctl(*words):
    options = [word for word in words if word.startswith("-")]
    verb, *units = [word for word in words if not word.startswith("-")]
    units = [unit if "." in unit else unit + ".service" for unit in units]
    if verb == "show":
        return show(units, options)
    if verb == "list-unit-files":
        for unit in filter(exists, units):
            print(unit, "enabled" if os.path.exists(ENABLED + unit) else "disabled", "enabled")
        return 0
    if verb == "is-system-running":
        return running("--wait" in options)
    note("systemctl", *words)
    if verb == "restart" and json.loads(read("/var/lib/stand-in/faults.json", "{}")).get("lost"):
        write("/lost", "")  # from now on nothing answers
    if verb in ("start", "restart", "try-restart"):
        return start_all(units, verb)
    return enable(units) if verb == "enable" else 0


def shutdown(*words):
    note("shutdown", *words)
    boot()
    return 0


# --- NVIDIA's tools -------------------------------------------------------------------------------


def list_gpus(count):
    for n in range(count):
        print(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})")
        for name, line in parts():
            if name.startswith(f"{n}:"):
                print(line)


def nvidia_smi(*words):
    loaded = re.search(r"(\d+\.\d+\.\d+)", read("/proc/driver/nvidia/version"))
    libraries = glob.glob("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.*")
    if not loaded:
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        return 9
    if not any(path.endswith(loaded.group(1)) for path in libraries):
        print("Failed to initialize NVML: Driver/library version mismatch")
        return 18
    faults = json.loads(read("/var/lib/stand-in/faults.json", "{}"))
    count = gpus() - faults.get("fallen", 0)
    if "-L" in words:
        list_gpus(count)
    elif any("remapped_rows" in word for word in words):
        print("0, 0\n" * count, end="")
    elif any("ecc" in word for word in words):
        print("0\n" * count, end="")
    elif any("fabric" in word for word in words):
        print("Completed\n" * count, end="")
    elif "nvlink" in words:
        print("GPU 0: NVIDIA H100\n\t Link 0: 26.562 GB/s\n" * count, end="")
    return 0


def journalctl(*words):
    print(f"Linux version {kernel()}")
    print(json.loads(read("/var/lib/stand-in/faults.json", "{}")).get("kernel_log", ""))
    return 0


def nvidia_modprobe(*words):
    device_files()
    return 0


PROGRAMS = {
    "systemctl": systemctl,
    "shutdown": shutdown,
    "modprobe": modprobe,
    "dkms": dkms,
    "update-initramfs": update_initramfs,
    "update-grub": update_grub,
    "nvidia-smi": nvidia_smi,
    "nvidia-modprobe": nvidia_modprobe,
    "journalctl": journalctl,
    "boot": lambda: boot() or 0,
    "dkms-remove": lambda version: dkms_remove(version) or 0,
}

if __name__ == "__main__":
    sys.exit(PROGRAMS[os.path.basename(sys.argv[0])](*sys.argv[1:]))
