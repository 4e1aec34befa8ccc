"""What a machine lacks to be a node is named at once, with what to do, before anything starts."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from tokenworks.local_node import preflight
from tokenworks.local_node.debian import debian_place
from tokenworks.local_node.preflight import (
    CAPABILITIES,
    FILE_SYSTEMS,
    Probed,
    judge,
    missing_features,
)
from tokenworks.operations.choice import choose
from tokenworks.toolchain.cache import Cache

GOOD = Probed(
    system="Linux",
    is_root=True,
    capabilities=2**41 - 1,
    missing_programs=frozenset(),
    file_systems=frozenset(FILE_SYSTEMS),
    place="ext4",
    cgroups="",
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
        ({"place": "overlay"}, "overlay"),
        ({"cgroups": "/sys/fs/cgroup: Read-only file system"}, "Read-only"),
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


def test_the_trial_leaves_the_machines_own_network_alone(root: Path) -> None:
    before = sorted(each.name for each in Path("/sys/class/net").iterdir())
    missing_features(root)
    assert sorted(each.name for each in Path("/sys/class/net").iterdir()) == before
