"""What a node's first process finds: its own groups and network to write to, no setting of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenworks.local_node.cgroups import Cgroups
from tokenworks.local_node.debian import debian_place
from tokenworks.local_node.machine import PYTHON
from tokenworks.local_node.start import NAMESPACES
from tokenworks.templating import TEMPLATES
from tokenworks.toolchain.cache import Cache

OWN = ("/proc/sys/net", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node")
"""Of the node's network, and mounts of its own."""
LOOK = """
import json, os, stat
own, groups = json.loads(os.environ["OWN"]), json.loads(os.environ["GROUPS"])
settings = []
for top in ("/proc", "/sys"):
    for folder, names, files in os.walk(top):
        names[:] = [n for n in names if not n.isdigit() or top == "/sys"]
        names[:] = [n for n in names if os.path.join(folder, n) not in own and n != "pressure"]
        settings += [os.path.join(folder, n) for n in files]
pretended = {line.split()[4] for line in open("/proc/self/mountinfo") if " - tmpfs " in line}
def writable(path):
    mode = os.lstat(path).st_mode  # root's right to write does not ask for it
    return stat.S_ISREG(mode) and mode & 0o222 and os.access(path, os.W_OK)
found = [one for one in settings if writable(one)]
for group in groups:
    os.mkdir(group + "/below")
with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
    file.write("1")
print(json.dumps({
    "writable": [one for one in found if one not in pretended],
    "settings": len(settings),
    "groups": [os.path.isdir(group + "/below") for group in groups],
    "processors": os.listdir("/sys/devices/system/cpu"),
    "etc": os.access("/etc", os.W_OK),
}))
"""


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    group = Cgroups(f"tokenworks-test-{os.getpid()}")
    try:
        yield group
    finally:
        group.remove()


@pytest.fixture
def seen(tmp_path: Path, groups: Cgroups) -> dict[str, Any]:
    """What a process finds that took a node's place."""
    debian = debian_place(Cache.of(os.environ))
    if os.geteuid() != 0 or not debian.exists() or shutil.which("unshare") is None:
        pytest.skip("What a node may write was NOT tested: no root, or no node was made here yet")
    groups.make()
    for name in ("merged", "upper", "work"):
        (tmp_path / name).mkdir()
    spec = {
        "cgroups": groups.spec(),
        "root": str(debian),
        **{name: str(tmp_path / name) for name in ("merged", "upper", "work")},
        "binds": [],
        "processors": 2,
        "memory_mib": 1024,
        "hostname": "here-0",
        "init": [PYTHON, "-c", LOOK],
    }
    (tmp_path / "enter.json").write_text(json.dumps(spec))
    enter = [sys.executable, "-I", "-S", str(TEMPLATES / "node" / "enter.py")]
    places = [each["place"] for each in groups.spec()]
    command = ["unshare", *NAMESPACES, "--fork", "--kill-child", *enter]
    done = subprocess.run(
        [*command, str(tmp_path / "enter.json")],
        env={"PATH": os.environ["PATH"], "OWN": json.dumps(OWN), "GROUPS": json.dumps(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_setting_of_the_whole_machine_can_be_written(seen: dict[str, Any]) -> None:
    assert seen["settings"] > 500
    assert seen["writable"] == []


def test_groups_network_and_files_are_the_nodes_own(seen: dict[str, Any]) -> None:
    assert seen["groups"]
    assert all(seen["groups"])
    assert {"cpu0", "cpu1", "online"} == set(seen["processors"])
    assert seen["etc"]
