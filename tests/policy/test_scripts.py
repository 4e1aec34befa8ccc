"""Shell text is read generously: whatever is written, and however, what it installs is seen."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.packages import driver_faults, pip_install_faults
from policy.resources import UNKNOWN, Resource
from policy.scripts import Script, commands, scripts_in

PREFIXES = st.sampled_from(
    ["", "sudo ", "sudo -E ", "exec ", "DEBIAN_FRONTEND=noninteractive ", "set -e; ", "true && ",
     "if ! which x; then ", "cd /tmp || exit 1\n", "\t", "(", "x=$(", "RUN "]
)  # fmt: skip
SUFFIXES = st.sampled_from(
    ["", "\n", " && echo done", "; fi", " | tee log", ")", " # as asked", " &"]
)


def drivers(text: str) -> list[str]:
    return [fault.verdict.value for fault in driver_faults(Script(key="k", text=text))]


def packages(text: str) -> list[str]:
    return [fault.verdict.value for fault in pip_install_faults(Script(key="k", text=text))]


@given(
    PREFIXES,
    SUFFIXES,
    st.sampled_from(["apt-get install -y", "apt install", "/usr/bin/yum install"]),
)
def test_a_driver_without_a_version_is_seen_wherever_its_command_stands(
    prefix: str, suffix: str, command: str
) -> None:
    assert drivers(f"{prefix}{command} curl nvidia-driver-580{suffix}") == ["fail"]
    assert drivers(f"{prefix}{command} curl{suffix}") == []


@given(PREFIXES, SUFFIXES, st.sampled_from(["pip", "pip3", "python3 -m pip", "uv pip"]))
def test_a_package_is_seen_wherever_its_command_stands(
    prefix: str, suffix: str, command: str
) -> None:
    assert packages(f"{prefix}{command} install -q 'vllm>=0.20'{suffix}") == ["fail"]
    assert packages(f"{prefix}{command} install --require-hashes -r lock.txt{suffix}") == []


@pytest.mark.parametrize(
    ("word", "exact"),
    [
        ("nvidia-driver-580-server=580.95.05-0ubuntu1", True),
        ("nvidia-container-toolkit-1.18.0-1.x86_64", True),
        ("cuda-drivers-580.95.05-1.el9", True),
        ("./nvidia-driver.rpm", True),
        ("nvidia-driver-580-server", False),
        ("nvidia-driver-580=580*", False),
        ("cuda-toolkit-12-8", False),
        ("cuda", False),
        ("libnvidia-compute-580", False),
        ("datacenter-gpu-manager", False),
        ("nvidia-driver:latest-dkms", False),
    ],
)
def test_only_a_whole_version_pins_a_package(word: str, exact: bool) -> None:
    assert drivers(f"dnf install -y {word}") == [] if exact else ["fail"]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    assert all(all(words) or words for words in commands(text))
    for fault in (
        *driver_faults(Script(key="k", text=text)),
        *pip_install_faults(Script(key="k", text=text)),
    ):
        assert fault.reason.isprintable()


@given(st.text(min_size=1, max_size=60))
def test_user_data_is_read_with_and_without_its_base64(text: str) -> None:
    script = f"#!/bin/bash\n{text}\n"
    encoded = base64.b64encode(script.encode()).decode()
    for given_text in (script, encoded):
        resource = Resource.of("aws:ec2/instance:Instance", "gpu", {"userData": given_text})
        ((read,),) = [list(scripts_in(resource))]
        assert read.text in {script, UNKNOWN}


def test_user_data_that_is_no_text_may_hold_anything() -> None:
    data = base64.b64encode(bytes(range(128, 256))).decode()
    resource = Resource.of("aws:ec2/launchTemplate:LaunchTemplate", "gpu", {"userData": data})
    assert [script.text for script in scripts_in(resource)] == [UNKNOWN]
