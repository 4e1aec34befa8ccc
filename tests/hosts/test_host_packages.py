"""What a transaction may touch, by what apt says that it would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.fake_root import ROOT  # noqa: F401 - its import lets ours be found
from tokenworks.hosts import names
from tokenworks.hosts.lock import Part

import host_packages  # type: ignore[import-not-found]  # isort: skip - found by the import above

LOCKED = "Inst dkms (3.0.11-1ubuntu13 mirror:noble [all])\n"
LIBGCC = "Inst libgcc-13-dev (13.3.0-6ubuntu2 mirror:noble [amd64])\n"
WANTED = {"install": {"dkms": "3.0.11-1ubuntu13"}, "remove": ["nvidia-utils-570"]}
PARAMETERS = WANTED | {"half_installed": [], "sources": "x", "lock_timeout_seconds": 1}
Tried = Callable[[str], "tuple[list[str], list[str]]"]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    """What becomes of a transaction that apt describes so."""

    def run(*_command: str) -> tuple[int, str]:
        return 0, said[0]

    said = [""]
    monkeypatch.setattr(host_packages, "run", run)

    def answer(text: str) -> Any:
        said[0] = LOCKED + text
        return host_packages.try_dry(PARAMETERS)

    return answer


@pytest.mark.parametrize(
    ("line", "brought"),
    [
        ("", []),
        ("Inst make (4.3-4.1build2 mirror:noble [amd64])\n", ["make 4.3-4.1build2"]),
        (
            f"{LIBGCC}Inst binutils (2.42-4 mirror:noble [amd64]) []\n",
            ["binutils 2.42-4", "libgcc-13-dev 13.3.0-6ubuntu2"],
        ),
        (
            "Inst linux-libc-dev (6.8.0-90.91 mirror:noble [amd64])\n",
            ["linux-libc-dev 6.8.0-90.91"],
        ),
        ("Remv nvidia-utils-570 [570.1-1]\n", []),
    ],
)
def test_what_the_locked_packages_need_and_gpus_do_not_comes_new_and_is_named(
    tried: Tried, line: str, brought: list[str]
) -> None:
    lines, found = tried(line)
    assert found == brought
    assert len(lines) == 1 + line.count("\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Inst make [4.2-1] (4.3-4.1 mirror:noble [amd64])\n", "also touch make"),
        ("Inst libc6 [2.35-0] (2.39-0 mirror:noble [amd64]) []\n", "also touch libc6"),
        ("Inst nvidia-utils-580 (580.1-1 mirror:noble [amd64])\n", "also touch nvidia-utils-580"),
        ("Inst libnvidia-gl:i386 (580.1-1 mirror:noble [i386])\n", "also touch libnvidia-gl"),
        ("Inst runc (1.3 mirror:noble [amd64])\n", "also touch runc"),
        (
            "Inst linux-image-6.8.0-90-generic (6.8 mirror:noble [amd64])\n",
            "also touch linux-image",
        ),
        ("Remv kubelet [1.35.0-1]\n", "apt would remove kubelet"),
        ("Remv make [4.2-1]\nInst patch (2.7 mirror:noble [amd64])\n", "apt would remove make"),
    ],
)
def test_what_is_there_stays_as_it_is_and_what_is_fenced_comes_from_the_lock_alone(
    tried: Tried, line: str, words: str
) -> None:
    with pytest.raises(host_packages.RefusedError, match=words):
        tried(line)


def test_a_locked_package_at_another_version_is_refused(tried: Tried) -> None:
    with pytest.raises(host_packages.RefusedError, match="also touch dkms"):
        tried("Inst dkms (3.1 mirror:noble [all])\n")


FENCED_PARTS = {
    *(Part.KERNEL, Part.HEADERS, Part.DRIVER),
    *(Part.FABRIC_MANAGER, Part.TOOLKIT, Part.CONTAINERD),
}


@given(st.one_of(*(st.from_regex(regex, fullmatch=True) for regex, _ in names._PARTS)))
def test_whatever_a_lock_takes_for_gpus_is_fenced(name: str) -> None:
    if name.isascii() and ":" not in name and names.part_of(name) in FENCED_PARTS:
        assert host_packages.is_fenced(name)


@pytest.mark.parametrize("name", ["make", "gcc-12", "libgcc-13-dev", "dkms", "linux-libc-dev"])
def test_what_is_of_no_concern_is_not_fenced(name: str) -> None:
    assert not host_packages.is_fenced(name)
