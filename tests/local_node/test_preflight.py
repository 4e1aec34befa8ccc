"""What a machine lacks to be a node is named at once, with what to do, before anything starts."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.checkout import ROOT
from tokenworks.local_node import preflight
from tokenworks.local_node.debian import debian_place
from tokenworks.local_node.preflight import (
    CAPABILITIES,
    FILE_SYSTEMS,
    KERNEL_REMEDIES,
    Probed,
    judge,
    missing_features,
    probe,
)
from tokenworks.operations.choice import choose
from tokenworks.operations.node import kernel_lacks
from tokenworks.toolchain.cache import Cache

GOOD = Probed(
    system="Linux",
    is_root=True,
    capabilities=2**41 - 1,
    missing_programs=frozenset(),
    file_systems=frozenset(FILE_SYSTEMS),
    layers="",
    cgroups="",
    missing_controllers=frozenset(),
    has_node=False,
    free_gib=100,
    memory_gib=16,
    can_make_debian=True,
)


def test_a_machine_that_has_everything_lacks_nothing_and_gets_a_real_node() -> None:
    assert judge(GOOD) == ()
    assert choose(judge(GOOD)).environment == "onenode"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"system": "Darwin"}, "Darwin"),
        ({"is_root": False}, "not root"),
        ({"missing_programs": frozenset({"unshare"})}, "unshare"),
        ({"file_systems": frozenset(FILE_SYSTEMS) - {"overlay"}}, "overlay"),
        ({"layers": "mount: wrong fs type"}, "wrong fs type"),
        ({"file_systems": frozenset(FILE_SYSTEMS) - {"overlay"}, "layers": "no device"}, "overlay"),
        ({"cgroups": "/sys/fs/cgroup: Read-only file system"}, "Read-only"),
        ({"missing_controllers": frozenset({"memory", "pids"})}, "limit memory, pids"),
        ({"free_gib": 0.5}, "0.5 GiB"),
        ({"memory_gib": 1.0}, "1.0 GiB"),
        ({"can_make_debian": False}, "debootstrap"),
        *(({"capabilities": 2**41 - 1 - 2**number}, name) for name, number in CAPABILITIES.items()),
    ],
)
def test_one_thing_that_is_missing_is_named_and_leads_to_the_simulated_environment(
    change: dict[str, object], word: str
) -> None:
    (lack,) = judge(dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]
    assert word in lack.what
    assert lack.remedy
    choice = choose((lack,))
    assert choice.environment == "local"
    assert lack.what in choice.because
    assert lack.remedy in choice.because


def test_everything_that_is_missing_is_named_together() -> None:
    bad = dataclasses.replace(GOOD, capabilities=0, file_systems=frozenset(), free_gib=0)
    assert len(judge(bad)) == len(CAPABILITIES) + len(FILE_SYSTEMS) + 1


def test_what_a_node_took_of_the_disk_does_not_keep_it_from_starting_again() -> None:
    assert judge(dataclasses.replace(GOOD, free_gib=0.5, has_node=True)) == ()


TRY_ON = """
import sys
from pathlib import Path
from tokenworks.local_node import preflight
print(preflight._try_layer(Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("mount", "can"),
    [
        ("-t tmpfs tmpfs", True),
        ("-t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work", False),
        ("-o ro -t tmpfs tmpfs", False),
    ],
)
def test_a_layer_is_tried_where_the_nodes_would_lie(tmp_path: Path, mount: str, can: bool) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("Layers were NOT tried: no root")
    for name in ("lower", "upper", "work", "place"):
        (tmp_path / name).mkdir()
    python = shlex.join([sys.executable, "-c", TRY_ON, str(tmp_path / "place")])
    script = f"cd {tmp_path} && mount {mount} place && cd {ROOT} && exec {python}"
    command = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout.strip()) is not can


def test_what_a_machine_lacks_to_be_tried_is_named_and_not_what_would_fail_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "_capabilities", lambda: 0)
    found = judge(probe(tmp_path, memory_gib=16, can_make_debian=True, has_node=False))
    named = {lack.what for lack in found}
    if os.geteuid() == 0:
        assert {f"root lacks {name}" for name in CAPABILITIES} <= named
    assert not [what for what in named if "overlay can be" in what or "control group" in what]


def test_a_trial_leaves_nothing_in_the_checkout_and_no_group(tmp_path: Path) -> None:
    probe(tmp_path, memory_gib=16, can_make_debian=True, has_node=False)
    assert list(tmp_path.iterdir()) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"**/tokenworks-trial-{os.getpid()}"))


@pytest.fixture
def root() -> Path:
    place = debian_place(Cache.of(os.environ))
    if os.geteuid() != 0 or not place.exists() or shutil.which("unshare") is None:
        pytest.skip("The trial of the kernel was NOT tested: no root, or no node was made here yet")
    return place


def test_a_kernel_feature_that_fails_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = {"what works": "true", "what fails": "ip link add x0 type no-such-kind"}
    monkeypatch.setattr(preflight, "FEATURES", tried)
    assert missing_features(root) == ("what fails",)


def test_a_feature_that_nobody_loads_unasked_has_the_command_that_does() -> None:
    assert KERNEL_REMEDIES.keys() <= preflight.FEATURES.keys()
    assert "modprobe br_netfilter" in KERNEL_REMEDIES["rules on bridged packets"]


def test_what_the_kernel_lacks_is_named_with_its_own_remedy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "FEATURES", dict.fromkeys(preflight.FEATURES, "false"))
    found = {lack.what: lack.remedy for lack in kernel_lacks(root)}
    assert len(found) == len(preflight.FEATURES)
    assert "br_netfilter" in found["the kernel cannot do rules on bridged packets"]
    assert "br_netfilter" not in found["the kernel cannot do bridges"]


@pytest.mark.parametrize("place", ["/made", "/etc/made", "/usr/bin/made", "/var/made"])
def test_a_trial_cannot_write_to_the_debian_that_is_everybodys(
    root: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(preflight, "FEATURES", {"writing": f"touch {place}"})
    assert missing_features(root) == ("writing",)
    assert not (root / place.lstrip("/")).exists()


def test_a_lock_that_a_trial_leaves_lies_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "FEATURES", {"locking": "touch /run/xtables.lock-of-a-test"})
    assert missing_features(root) == ()
    assert not (root / "run" / "xtables.lock-of-a-test").exists()


def test_the_trial_leaves_the_machines_own_network_alone(root: Path) -> None:
    before = sorted(each.name for each in Path("/sys/class/net").iterdir())
    missing_features(root)
    assert sorted(each.name for each in Path("/sys/class/net").iterdir()) == before
