#!/usr/bin/python
"""One apt transaction that makes a host's packages exactly the locked ones.

Standard library only, Python 3.8 or newer. It finishes what a run that was cut off left half done,
reads nothing but the lock's repositories, compares hashes before it fetches, tries the transaction
dry, and refuses it if apt would touch anything that was not planned. Only what a host does not have
yet and GPUs do not depend on, such as make for dkms, may come with it from the same repositories.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_packages
short_description: Bring a host's packages to the locked versions in one apt transaction
description:
  - Installs exact versions, removes what has to go in the same transaction, and holds.
options:
  install:
    description: Version by package name.
    type: dict
    default: {}
  remove:
    description: Packages that leave in the same transaction.
    type: list
    elements: str
    default: []
  hold:
    description: Packages to hold afterwards.
    type: list
    elements: str
    default: []
  sha256:
    description: Locked SHA-256 of each package's file, by package name.
    type: dict
    default: {}
  half_installed:
    description: Packages that a run which was cut off left half done.
    type: list
    elements: str
    default: []
  sources:
    description: The file with the lock's repositories; no others are read.
    type: path
    required: true
  lock_timeout_seconds:
    description: How long to wait for others who hold the package manager.
    type: int
    default: 600
author:
  - tokenworks
"""

EXAMPLES = """
- name: Install what is locked
  host_packages:
    install: {nvidia-utils-580: 580.159.04-1ubuntu1}
    remove: [nvidia-utils-570]
    hold: [nvidia-utils-580]
    sources: /etc/apt/sources.list.d/tokenworks.sources
"""

RETURN = """
transaction:
  description: What apt did, or would do, one line a package.
  returned: always
  type: list
  elements: str
tokenworks:
  description: What callers keep; C(brought) is "name version" of what came beside the lock.
  returned: always
  type: dict
"""

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    # needrestart would restart containerd and others in the middle of the transaction.
    "NEEDRESTART_SUSPEND": "1",
    "APT_LISTCHANGES_FRONTEND": "none",
}
# What comes from the lock alone: NVIDIA's driver and toolkit, containerd, and kernels with headers.
FENCED = re.compile(
    r"(lib)?nvidia-.+|firmware-nvidia-.+|libnv(sdm|optix|cuvid).*|libcuda1|libxnvctrl.*|cuda-.+"
    r"|nvlsm|nvlink.+|containerd(\.io)?|runc|docker-ce.*"
    r"|linux-(image|headers|modules|objects|signatures|kbuild)-.+|linux-.+-headers-.+"
)
TIMED_OUT = 124  # of timeout(1)
KEEP_FILES = ["--force-confdef", "--force-confold"]
RELOCK = "lock the hosts anew (tokenworks lock hosts)"


class RefusedError(Exception):
    """What was refused or failed; ends with what to do."""


def run(*command):
    """Return (exit status, output) of a program."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, **ENVIRONMENT),
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_lines(output, count=12):
    """Return the end of an output, where programs say what went wrong."""
    return "\n".join(output.strip().splitlines()[-count:])


def lock_is_free():
    """Return whether nobody holds the package manager."""
    with open("/var/lib/dpkg/lock-frontend", "w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def wait_for_first_boot(timeout_seconds):
    """Wait for cloud-init, which installs packages of its own between one lock and the next."""
    if shutil.which("cloud-init"):
        status, _ = run("timeout", str(timeout_seconds), "cloud-init", "status", "--wait")
        if status == TIMED_OUT:
            raise RefusedError(
                f"cloud-init has not finished in {timeout_seconds} seconds; see what it waits for "
                "with: cloud-init status --long"
            )


def wait_for_lock(timeout_seconds):
    """Wait until nobody holds the package manager."""
    deadline = time.monotonic() + timeout_seconds
    while not lock_is_free():
        if time.monotonic() > deadline:
            raise RefusedError(
                f"another program has held dpkg's lock for {timeout_seconds} seconds; let it "
                "finish, or find it with: fuser -v /var/lib/dpkg/lock-frontend"
            )
        time.sleep(1)


def options(parameters):
    """Return what every call of apt needs: only the lock's repositories, and patience."""
    settings = (
        "Dir::Etc::SourceList=" + parameters["sources"],
        "Dir::Etc::SourceParts=-",
        # Lists of the host's own repositories stay: they are not ours.
        "APT::Get::List-Cleanup=0",
        # Without it an unreachable repository is a mere warning and old lists are used.
        "APT::Update::Error-Mode=any",
        "DPkg::Lock::Timeout={}".format(parameters["lock_timeout_seconds"]),
        "Acquire::Retries=3",
    )
    return [word for setting in settings for word in ("-o", setting)]


def recover():
    """Finish what was unpacked and not configured; what still fails is left to the transaction."""
    run("dpkg", *KEEP_FILES, "--configure", "-a")


def update(parameters):
    """Fetch the indices of the lock's repositories."""
    status, output = run("apt-get", *options(parameters), "-q", "update")
    if status != 0:
        raise RefusedError(update_failure(output))


def update_failure(output):
    """Return why the indices could not be fetched, and what to do."""
    said = "\n".join(line for line in output.splitlines() if line.startswith(("E:", "W:", "Err:")))
    if "NOSPLIT" in output:
        return (
            "something else answers in place of a repository of the lock, such as a proxy with a "
            f"page of its own; let the host reach it, or name the right proxy (apt_proxy):\n{said}"
        )
    if re.search(r"NO_PUBKEY|EXPKEYSIG|REVKEYSIG|BADSIG|not signed|couldn't be verified", output):
        return (
            "a repository is not signed by the key of the lock; compare the vendor's announced "
            f"fingerprint, put the new key beside the lock and {RELOCK}:\n{said}"
        )
    return (
        "a repository of the lock cannot be read; check that the host reaches it (proxy, mirror, "
        f"name service), and that it still exists:\n{said}"
    )


def check_files(parameters):
    """Refuse versions that no repository has and files that are not those of the lock."""
    wanted = parameters["install"]
    exact = ["{}={}".format(*pair) for pair in sorted(wanted.items())]
    _, output = run("apt-cache", *options(parameters), "show", *exact)
    offered = {}
    for paragraph in output.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|SHA256): (\S+)$", paragraph, re.MULTILINE))
        if wanted.get(fields.get("Package")) == fields.get("Version") and "SHA256" in fields:
            offered.setdefault(fields["Package"], set()).add(fields["SHA256"])
    gone = sorted(set(wanted) - set(offered))
    if gone:
        named = ", ".join(f"{name} {wanted[name]}" for name in gone)
        raise RefusedError(
            f"no repository of the lock has {named}; vendors delete old packages: use a snapshot "
            f"or mirror that keeps them, or {RELOCK}"
        )
    locked = parameters["sha256"]
    other = sorted(name for name in wanted if name in locked and locked[name] not in offered[name])
    if other:
        raise RefusedError(
            "the repositories offer other files than locked for {}, under the same version; find "
            "out who rebuilt them before you {}".format(", ".join(other), RELOCK)
        )


def command(parameters):
    """Return the one apt call."""
    wanted = ["{}={}".format(*pair) for pair in sorted(parameters["install"].items())]
    gone = [name + "-" for name in sorted(parameters["remove"])]
    broken = sorted(set(parameters["half_installed"]) & set(parameters["install"]))
    return [
        "apt-get",
        *options(parameters),
        *(word for flag in KEEP_FILES for word in ("-o", "Dpkg::Options::=" + flag)),
        "-q",
        "--yes",
        "--no-install-recommends",
        "--allow-downgrades",
        "--allow-change-held-packages",
        *(["--reinstall"] if broken else []),
        "install",
        *wanted,
        *gone,
    ]


def try_dry(parameters):
    """Return what apt would do, and what comes new beside the lock; refuse what was not planned."""
    status, output = run(*command(parameters), "--simulate")
    if status != 0:
        raise RefusedError(
            f"apt finds no way to the locked packages; the lock does not fit this host, {RELOCK}:\n"
            f"{last_lines(output)}"
        )
    installs = re.findall(r"^Inst (\S+) (\[\S+\] )?\((\S+) ", output, re.MULTILINE)
    removals = set(re.findall(r"^Remv (\S+) ", output, re.MULTILINE))
    gone = sorted(removals - set(parameters["remove"]))
    if gone:
        raise RefusedError(
            f"apt would remove {', '.join(gone)}, which depends on packages of another version; "
            f"remove it by hand if the host can do without, or else {RELOCK} with it"
        )
    locked = parameters["install"]
    beside = [entry for entry in installs if locked.get(entry[0]) != entry[2]]
    strange = sorted(n for n, before, _ in beside if before or n in locked or is_fenced(n))
    if strange:
        raise RefusedError(
            "apt would also touch {}, which the lock does not name; add them to it: {}".format(
                ", ".join(strange), RELOCK
            )
        )
    lines = re.findall(r"^(?:Inst|Remv) .+$", output, re.MULTILINE)
    return lines, sorted(f"{name} {version}" for name, _, version in beside)


def is_fenced(name):
    """Return whether a package comes from the lock alone; ``name`` may end with an architecture."""
    return bool(FENCED.fullmatch(name.split(":")[0]))


def hold(names):
    """Hold packages, so that no upgrade by hand moves them."""
    status, output = run("apt-mark", "hold", *sorted(names))
    if status != 0:
        raise RefusedError(f"cannot hold packages; {last_lines(output)}")


def transact(parameters, check_mode):
    """Do it all; return a line for each package that was or would be touched, and what came new."""
    acting = bool(parameters["install"] or parameters["remove"] or parameters["half_installed"])
    if check_mode:
        return ["{} {}".format(*pair) for pair in sorted(parameters["install"].items())], []
    wait_for_first_boot(parameters["lock_timeout_seconds"])
    wait_for_lock(parameters["lock_timeout_seconds"])
    lines, brought = [], []
    if acting:
        recover()
        update(parameters)
        check_files(parameters)
        lines, brought = try_dry(parameters)
        status, output = run(*command(parameters))
        if status != 0:
            raise RefusedError(
                "the transaction failed; the next run finishes it once the reason is gone:\n"
                f"{last_lines(output, 25)}"
            )
    if parameters["hold"]:
        hold(parameters["hold"])
    return lines, brought


def main():
    """Answer Ansible."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "install": {"type": "dict", "default": {}},
            "remove": dict(names),
            "hold": dict(names),
            "half_installed": dict(names),
            "sha256": {"type": "dict", "default": {}},
            "sources": {"type": "path", "required": True},
            "lock_timeout_seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        lines, brought = transact(wanted, module.check_mode)
    except RefusedError as refused:
        module.fail_json(msg=str(refused))
    changed = any(wanted[key] for key in ("install", "remove", "hold", "half_installed"))
    module.exit_json(changed=changed, transaction=lines, tokenworks={"brought": brought})


if __name__ == "__main__":
    main()
