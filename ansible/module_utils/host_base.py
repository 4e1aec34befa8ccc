"""The operating system, packages and files of a host, read as they are.

Standard library only, Python 3.8 or newer: it runs on the host itself. Nothing is changed and
nothing is guessed; what cannot be read is None. Files are read below ``root``, so that a folder can
stand for a host in tests; programs are asked through ``run``.
"""

import fcntl
import glob
import hashlib
import json
import os
import re
import shlex
import stat
import struct
import subprocess

OF_CONCERN = re.compile(r"nvidia|^libnv|cuda|nvlsm|containerd|^runc$|^docker|^linux-|^gcc-|dkms")
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DKMS_KEY = "/var/lib/dkms/mok.pub"
GRUB_IDS = ("$menuentry_id_option", "--id")
OWED = "var/lib/tokenworks/owed.json"
GATE_RESULT = "run/tokenworks/gate.json"
# For whatever only reads; nvidia-smi hangs where a GPU does.
PROGRAM_SECONDS = 120
BY_BOOT = (
    "reload_units",
    "reboot",
    "load_driver",
    "restart_gpu_services",
    "refresh_cdi",
    "restart_containerd",
)


def run_program(*command, seconds=PROGRAM_SECONDS):
    """Return (exit status, output) of a program; None where there is none or it takes longer."""
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout.decode("utf-8", "replace")


class Host:
    """One host, or a folder that looks like one."""

    def __init__(self, root="/", run=run_program):
        self.root = root
        self.run = run

    def path(self, relative):
        """Return where a file of the host lies."""
        return os.path.join(self.root, relative.lstrip("/"))

    def text(self, relative):
        """Return a file's text, None where there is none."""
        try:
            with open(self.path(relative), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def word(self, relative):
        """Return a file's text without the space around it, empty where there is none."""
        return (self.text(relative) or "").strip()

    def names(self, pattern):
        """Return what matches a pattern, as paths of the host, sorted."""
        found = glob.glob(self.path(pattern))
        return sorted("/" + os.path.relpath(each, self.root) for each in found)

    def asked(self, *command):
        """Return a program's output, None where it is missing or failed."""
        answer = self.run(*command)
        return answer[1] if answer and answer[0] == 0 else None


# --- The operating system -------------------------------------------------------------------------


def operating_system(host):
    """Return such as ubuntu-24.04."""
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', host.text("etc/os-release") or "", re.MULTILINE)
    fields = dict(pairs)
    return "{}-{}".format(fields.get("ID", "unknown"), fields.get("VERSION_ID", "unknown"))


def architecture():
    """Return it as dpkg names it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def kernels(host):
    """Return the releases of the kernels that are installed."""
    return [os.path.basename(path)[len("vmlinuz-") :] for path in host.names("boot/vmlinuz-*")]


def boot_kernel(host):
    """Return the release that the next boot starts; None if that cannot be told."""
    grub = host.text("boot/grub/grub.cfg")
    if grub is not None:
        return grub_kernel(grub, host.word("boot/grub/grubenv"))
    for link in ("vmlinuz", "boot/vmlinuz"):
        if os.path.islink(host.path(link)):
            return os.path.basename(os.readlink(host.path(link)))[len("vmlinuz-") :]
    installed = kernels(host)
    return installed[0] if len(installed) == 1 else None


def grub_kernel(configuration, environment):
    """Return the release that GRUB's default entry starts, from grub.cfg and grubenv.

    None where that cannot be told for certain, such as an entry that is not there: GRUB would start
    the first one instead (grub-core/normal/menu.c), which is nobody's choice.
    """
    entry, menu = None, grub_menu(configuration)
    for step in re.split(r"(?<!>)>(?!>)", grub_default(configuration, environment) or ""):
        entry = grub_entry(menu or [], step.replace(">>", ">"))
        menu = entry and entry["entries"]
    return entry and entry["kernel"]


def grub_default(configuration, environment):
    """Return the path of the entry that the next boot starts, None where it is not certain."""
    kept = dict(re.findall(r"^(\w+)=(.+)$", environment, re.MULTILINE))
    if kept.get("next_entry"):
        return kept["next_entry"]
    lines = re.findall(r"^\s*set default=(.*)$", configuration, re.MULTILINE)
    said = {line.strip().strip('"') for line in lines}
    said.discard("${next_entry}")
    default = said.pop() if len(said) == 1 else None if said else "0"
    if default == "${saved_entry}":
        return kept.get("prev_saved_entry") or kept.get("saved_entry")
    return None if default is None or "$" in default else default


def grub_entry(menu, name):
    """Return the entry of a menu that has a number, title or id."""
    if name.isdigit():
        return menu[int(name)] if int(name) < len(menu) else None
    return next((entry for entry in menu if name and name in (entry["title"], entry["id"])), None)


def grub_menu(configuration):
    """Return the entries of grub.cfg in order, each with those of its submenu."""
    menu = []
    blocks = [{"entries": menu, "kernel": None}]
    for line in configuration.splitlines():
        kind = re.match(r"\s*(menuentry|submenu)\s", line)
        kernel = re.match(r"\s*linux\S*\s+\S*/vmlinuz-(\S+)", line)
        if kind:
            made = grub_titled(line, kind.group(1))
            above = next((each for each in reversed(blocks) if each["entries"] is not None), None)
            above["entries"].append(made)
            blocks.append(made)
        elif line.rstrip().endswith("{"):
            blocks.append({"entries": None, "kernel": None})
        elif line.strip() == "}" and len(blocks) > 1:
            blocks.pop()
        elif kernel:
            blocks[-1]["kernel"] = blocks[-1]["kernel"] or kernel.group(1)
    return menu


def grub_titled(line, kind):
    """Return an entry with its title and id, as yet empty; both are None where they are unclear."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    ids = [after for word, after in zip(words, words[1:]) if word in GRUB_IDS]
    return {
        "title": words[1] if len(words) > 1 else None,
        "id": ids[0] if ids else None,
        "kernel": None,
        "entries": [] if kind == "submenu" else None,
    }


def stale_initramfs(host):
    """Return kernels whose initial RAM disk is older than what it should hold, or is missing."""
    rules = [os.path.getmtime(host.path(path)) for path in host.names("etc/modprobe.d/*.conf")]
    newest = max(rules, default=0)
    stale = []
    for kernel in kernels(host):
        disk = host.path("boot/initrd.img-" + kernel)
        if not os.path.exists(disk) or os.path.getmtime(disk) < newest:
            stale.append(kernel)
    return stale


def secure_boot(host):
    """Return whether it is on; None where its variable cannot be read."""
    if not os.path.isdir(host.path("sys/firmware/efi")):
        return False
    try:
        with open(host.path(SECURE_BOOT), "rb") as file:
            return file.read()[4:5] == b"\x01"  # four bytes of attributes come first
    except OSError:
        return None


def module_key_enrolled(host):
    """Return whether the firmware knows the key that dkms signs modules with."""
    return "is already enrolled" in (host.asked("mokutil", "--test-key", DKMS_KEY) or "")


def compiler(host):
    """Return such as gcc-13, which built the running kernel; None if it does not say."""
    said = re.search(r"\bgcc[^)]*?[ -](\d+)(?:\.\d+)*", host.text("proc/version") or "")
    return "gcc-" + said.group(1) if said else None


# --- Packages -------------------------------------------------------------------------------------


def dpkg(host, wanted):
    """Return packages, half-installed ones and holds, from dpkg's own file."""
    packages, half, held = {}, [], []
    for paragraph in (host.text("var/lib/dpkg/status") or "").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.+)$", paragraph, re.MULTILINE))
        name, words = fields.get("Package"), fields.get("Status", "").split()
        if not name or len(words) != 3:
            continue
        want, flag, status = words
        if flag != "ok" or status not in ("installed", "not-installed", "config-files"):
            half.append(name)
        if want == "hold" and status == "installed":
            held.append(name)
        if status == "installed" and (name in wanted or OF_CONCERN.search(name)):
            packages[name] = fields.get("Version", "")
    return packages, sorted(half), sorted(held)


def apt_sources(host):
    """Return "address suite" of every repository that the host knows, by file."""
    found = {}
    for path in host.names("etc/apt/sources.list*") + host.names("etc/apt/sources.list.d/*"):
        if path.endswith(".list"):
            words = [
                line.split()
                for line in re.sub(r"\[[^]]*\]", "", host.text(path) or "").splitlines()
            ]
            found[path] = [" ".join(line[1:3]) for line in words if line[:1] == ["deb"]]
        elif path.endswith(".sources"):
            found[path] = []
            for paragraph in (host.text(path) or "").split("\n\n"):
                fields = dict(
                    re.findall(r"^(URIs|Suites|Enabled): *(.*)$", paragraph, re.MULTILINE)
                )
                if fields.get("Enabled", "yes") != "no":
                    suites = fields.get("Suites", "").split()
                    addresses = fields.get("URIs", "").split()
                    found[path] += [f"{uri} {suite}" for uri in addresses for suite in suites]
    return found


def lock_holder(host):
    """Return who holds the package manager's locks, None where nobody does."""
    for name in ("lock-frontend", "lock"):
        try:
            with open(host.path("var/lib/dpkg/" + name), "rb") as file:
                question = struct.pack("hhqqixxxx", fcntl.F_WRLCK, 0, 0, 0, 0)
                answer = fcntl.fcntl(file, fcntl.F_GETLK, question)
        except OSError:
            continue
        kind, _, _, _, pid = struct.unpack("hhqqixxxx", answer)
        if kind != fcntl.F_UNLCK:
            return "{} ({})".format(host.word(f"proc/{pid}/comm") or "process", pid)
    return None


def candidates(host, packages):
    """Return the version that apt would install of each package, where there is one."""
    if not packages:
        return {}
    said = host.asked("apt-cache", "policy", *sorted(packages)) or ""
    pairs = re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (.+)$", said, re.MULTILINE)
    return {name: version for name, version in pairs if version != "(none)"}


def upgrade_blacklist(host):
    """Return what unattended upgrades leave alone, after all files are merged; None if unknown."""
    said = host.asked("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist")
    if said is None:
        return None
    return re.findall(r'Package-Blacklist:: "([^"]*)";', said)


def automatic_updates(host):
    """Return whether apt's own timers act, after all files are merged; None if unknown."""
    said = host.asked("apt-config", "dump", "APT::Periodic::Enable")
    if said is None:
        return None
    # apt.systemd.daily acts unless it is 0.
    return re.search(r'^APT::Periodic::Enable "0";', said, re.MULTILINE) is None


# --- Files ----------------------------------------------------------------------------------------


def digest(host, path):
    """Return a file's SHA-256, None where it is missing, a reason where others may change it."""
    place = host.path(path)
    try:
        status = os.lstat(place)
        if not stat.S_ISREG(status.st_mode):
            return "no regular file"
        if status.st_uid != 0 or status.st_mode & 0o022:
            return "others than root may write it"
        with open(place, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def owed(host):
    """Return the steps that a run which was cut off still owes; a boot does some by itself."""
    try:
        noted = json.loads(host.text(OWED) or "{}")
    except ValueError:
        noted = {}
    steps = noted.get("steps", [])
    if noted.get("boot_id") != host.word("proc/sys/kernel/random/boot_id"):
        steps = [step for step in steps if step not in BY_BOOT]
    return steps


def gate(host):
    """Return what the gate wrote at the last boot, None where it did not run."""
    try:
        return json.loads(host.text(GATE_RESULT) or "null")
    except ValueError:
        return None
