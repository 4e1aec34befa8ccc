"""The catalogue against the files that it speaks of."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tokenworks.toolchain.catalogue import (
    BENCHMARK_TOOLS,
    CLUSTER_TOOLS,
    ENVIRONMENT_TOOLS,
    GATEWAY_TOOLS,
    MINIMUM_GO,
    MODULE,
    MODULES,
    NODE_TOOLS,
    TOOL,
    TOOLS,
    WHEELS,
    modules_of,
    with_partners,
)
from tokenworks.toolchain.golang import REQUIREMENTS
from tokenworks.toolchain.kinds import Module, Wheel
from tokenworks.toolchain.toolbox import tools_folder

CHECKOUT = Path(__file__).resolve().parents[2]


def go_mod(folder: str) -> str:
    return (tools_folder() / folder / "go.mod").read_text()


def test_every_folder_under_tools_is_a_module_and_every_module_a_folder() -> None:
    assert {path.parent.name for path in tools_folder().glob("*/go.mod")} == set(MODULE)


def test_every_tool_is_a_program_of_its_module_and_no_program_is_unknown() -> None:
    programs = {(package.name, module.name) for module in MODULES for package in module.packages}
    programs |= {(name, wheel.name) for wheel in WHEELS for name in wheel.programs}
    assert programs == {(tool.name, tool.module) for tool in TOOLS}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_pins_its_sums_and_asks_for_the_go_that_is_checked(module: Module) -> None:
    assert f"\ngo {MINIMUM_GO}\n" in go_mod(module.name)
    needs_others = "\nrequire " in go_mod(module.name)
    assert (tools_folder() / module.name / "go.sum").exists() is needs_others


@pytest.mark.parametrize(
    ("folder", "go_module", "version"),
    [
        ("pulumi", "github.com/pulumi/pulumi/pkg/v3", f"v{TOOL['pulumi'].version}"),
        # The scripts beside the language host are those of this release of the engine.
        ("pulumi", "github.com/pulumi/pulumi/sdk/v3", f"v{TOOL['pulumi'].version}"),
        (
            "pulumi-language-python",
            "github.com/pulumi/pulumi/sdk/v3",
            f"v{TOOL['pulumi-language-python'].version}",
        ),
        ("kubernetes", "k8s.io/kubernetes", f"v{TOOL['kubectl'].version}"),
        ("etcd", "go.etcd.io/etcd/server/v3", f"v{TOOL['etcd'].version}"),
        ("kwok", "sigs.k8s.io/kwok", f"v{TOOL['kwok'].version}"),
        (
            "ratelimit",
            "github.com/envoyproxy/ratelimit",
            # 1.4.1.dev20260122083618 is Go's v1.4.1-0.20260122083618-<commit>.
            f"v{TOOL['tokenworks-ratelimit'].version.replace('.dev', '-0.')}-3fb702589d36",
        ),
    ],
)
def test_the_version_in_the_catalogue_is_the_one_that_go_builds(
    folder: str, go_module: str, version: str
) -> None:
    assert re.search(rf"(require )?\b{re.escape(go_module)} {re.escape(version)}\b", go_mod(folder))


def test_what_is_built_would_count_if_it_were_found() -> None:
    for tool in TOOLS:
        assert Version(tool.version) in SpecifierSet(tool.accepts), tool.name
        assert tool.accepts_because


def test_the_provider_is_the_release_of_the_python_sdk() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    pins = {(pin := Requirement(text)).name: str(pin.specifier) for text in project["dependencies"]}
    assert pins["pulumi-kubernetes"] == TOOL["pulumi-resource-kubernetes"].accepts
    assert Version(pins["pulumi"].removeprefix("==")) in SpecifierSet(TOOL["pulumi"].accepts)


def test_tools_that_count_as_a_pair_ask_for_each_other() -> None:
    assert with_partners(["pulumi"]) == with_partners(["pulumi-language-python"])
    assert with_partners(["etcd"]) == ("etcd",)


def test_the_cluster_needs_the_control_plane_and_no_pulumi() -> None:
    assert {module.name for module in modules_of(CLUSTER_TOOLS)} == {"kubernetes", "etcd", "kwok"}


def pin_of(file: str) -> tuple[Requirement, list[str]]:
    """What a requirements file under ``tools/`` pins, and the hashes it may have."""
    lines = (tools_folder() / file).read_text().splitlines()
    text = " ".join(line.rstrip("\\") for line in lines if not line.startswith("#"))
    pin, *hashes = text.split()
    return Requirement(pin), hashes


@pytest.mark.parametrize("file", [REQUIREMENTS, *(f"{wheel.name}.txt" for wheel in WHEELS)])
def test_what_comes_from_pypi_is_one_version_by_its_hash_for_each_platform(file: str) -> None:
    pin, hashes = pin_of(file)
    assert re.fullmatch(r"==[0-9.post]+", str(pin.specifier))
    assert len(hashes) == 4
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes)


def test_the_go_on_pypi_is_new_enough() -> None:
    pin, _ = pin_of(REQUIREMENTS)
    assert Version(str(pin.specifier).removeprefix("==")) >= Version(MINIMUM_GO)


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_the_version_of_a_wheel_begins_with_that_of_its_programs(wheel: Wheel) -> None:
    pin, _ = pin_of(f"{wheel.name}.txt")
    for name in wheel.programs:
        version = str(pin.specifier).removeprefix("==")
        assert Version(version).base_version == TOOL[name].version


def test_every_file_that_pins_a_wheel_is_known() -> None:
    pins = {path.name for path in tools_folder().glob("*.txt")}
    assert pins == {REQUIREMENTS, *(f"{wheel.name}.txt" for wheel in WHEELS)}


def test_bringing_an_environment_up_needs_no_tool_of_the_gateway_on_loopback() -> None:
    groups = (ENVIRONMENT_TOOLS, GATEWAY_TOOLS, BENCHMARK_TOOLS, NODE_TOOLS)
    assert sorted(name for group in groups for name in group) == sorted(TOOL)
