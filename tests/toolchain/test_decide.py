"""Which tools count as found, and what is built: decisions on plain data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.toolchain.catalogue import (
    TOOL,
    TOOLS,
)
from tokenworks.toolchain.decide import (
    Sighting,
    State,
    builds_at_once,
    choose,
    judge,
    modules_to_build,
    read_version,
)


def seen(name: str, output: str = "", *, folder: str = "/usr/bin", problem: str = "") -> Sighting:
    return Sighting(path=Path(folder, name), folder=Path(folder), output=output, problem=problem)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("v3.274.1", "3.274.1"),
        ("Kubernetes v1.35.4", "1.35.4"),
        ("Client Version: v1.35.4\nKustomize Version: v5.7.1", "1.35.4"),
        ("etcd Version: 3.7.3\nGit SHA: abc\nGo Version: go1.26.8", "3.7.3"),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", "0.8.0"),
        ('{"clientVersion": {"gitVersion": "v1.36.0"}}', "1.36.0"),
        ("Kubernetes v1.35.4+k3s1", "1.35.4+k3s1"),
        ("3.276.0-alpha.1", "3.276.0a1"),
        ("Client Version: v1.32.4-dispatcher", None),
        ("Kubernetes v0.0.0-master+$Format:%H$", None),
        ("", None),
        ("usage: kubectl [command]", None),
    ],
)
def test_a_version_is_read_from_what_a_program_prints(said: str, version: str | None) -> None:
    found = read_version(said)
    assert (str(found) if found else None) == version


@pytest.mark.parametrize(
    ("name", "said", "good"),
    [
        ("kubectl", "Client Version: v1.34.0", True),
        ("kubectl", "Client Version: v1.36.9", True),
        ("kubectl", "Client Version: v1.33.9", False),
        ("kubectl", "Client Version: v1.37.0", False),
        ("kubectl", "Client Version: v1.35.4-dispatcher", False),
        ("kube-apiserver", "Kubernetes v1.35.0", True),
        ("kube-apiserver", "Kubernetes v1.36.0", False),
        ("kube-scheduler", "Kubernetes v1.34.9", False),
        ("etcd", "etcd Version: 3.7.0", True),
        ("etcd", "etcd Version: 3.6.12", False),
        ("kwokctl", "kwokctl version v0.8.1", True),
        ("kwokctl", "kwokctl version v0.9.0", False),
        ("pulumi", "v3.272.0", True),
        ("pulumi", "v3.300.0", True),
        ("pulumi", "v3.271.9", False),
        ("pulumi", "v4.0.0", False),
        ("pulumi", "v3.280.0-alpha.5", False),
    ],
)
def test_a_copy_on_path_counts_by_its_version(name: str, said: str, good: bool) -> None:
    assert judge(TOOL[name], seen(name, said)).good is good


def test_a_refusal_names_the_program_what_it_is_what_counts_and_why() -> None:
    verdict = judge(TOOL["kube-apiserver"], seen("kube-apiserver", "Kubernetes v1.34.1"))
    assert "/usr/bin/kube-apiserver is 1.34.1, not ~=1.35.0: " in verdict.because
    assert verdict.because.endswith("change between minor versions")


def test_a_broken_shim_is_refused_with_what_it_said() -> None:
    problem = "ends with code 127: pyenv: kubectl: command not found"
    verdict = judge(TOOL["kubectl"], seen("kubectl", problem=problem))
    assert not verdict.good
    assert problem in verdict.because


def test_the_providers_plugin_folder_vouches_for_its_version() -> None:
    tool = TOOL["pulumi-resource-kubernetes"]
    verdict = judge(tool, seen(tool.name, folder="/home/u/.pulumi/plugins"))
    assert verdict.good
    assert verdict.version == tool.version
    assert not judge(tool, None).good


PULUMI = ("pulumi", "pulumi-language-python")


def test_pulumi_and_its_language_host_are_found_together() -> None:
    sightings = {"pulumi": seen("pulumi", "v3.280.0"), PULUMI[1]: seen(PULUMI[1], "Usage")}
    assert [each.state for each in choose(PULUMI, sightings, {})] == [State.FOUND, State.FOUND]


@pytest.mark.parametrize(
    ("sightings", "because"),
    [
        ({"pulumi": seen("pulumi", "v3.280.0")}, "not found on PATH"),
        ({PULUMI[1]: seen(PULUMI[1])}, "not found on PATH"),
        (
            {"pulumi": seen("pulumi", "v3.100.0"), PULUMI[1]: seen(PULUMI[1])},
            "3.100.0, not >=3.272,<4",
        ),
        (
            {"pulumi": seen("pulumi", "v3.280.0"), PULUMI[1]: seen(PULUMI[1], folder="/opt")},
            "not in the same folder",
        ),
        (
            {
                "pulumi": seen("pulumi", "v3.280.0"),
                PULUMI[1]: seen(PULUMI[1], problem="does not start: Exec format error"),
            },
            "Exec format error",
        ),
    ],
    ids=["no host", "no pulumi", "old pulumi", "elsewhere", "broken host"],
)
def test_neither_of_the_pair_counts_when_the_other_does_not(
    sightings: dict[str, Sighting], because: str
) -> None:
    statuses = choose(PULUMI, sightings, {})
    assert [each.state for each in statuses] == [State.MISSING, State.MISSING]
    assert all(because in each.because for each in statuses)


def test_a_finished_build_is_taken_only_where_no_copy_counts() -> None:
    built = {name: Path("/cache", name) for name in ("etcd", "kwok")}
    etcd, kwok = choose(("etcd", "kwok"), {"etcd": seen("etcd", "etcd Version: 3.7.9")}, built)
    assert (etcd.state, etcd.path, etcd.version) == (State.FOUND, Path("/usr/bin/etcd"), "3.7.9")
    assert (kwok.state, kwok.path, kwok.version) == (State.BUILT, Path("/cache/kwok"), "0.8.0")


def test_a_missing_tool_says_where_it_is_built_and_has_no_path() -> None:
    (status,) = choose(["etcd"], {}, {})
    assert (status.state, status.path, status.version) == (State.MISSING, None, "")
    assert status.because == "to be built from tools/etcd: not found on PATH"


def test_one_missing_program_builds_its_module_once_and_found_ones_build_nothing() -> None:
    control_plane = ("kube-apiserver", "kube-controller-manager", "kubectl", "etcd")
    statuses = choose(control_plane, {"etcd": seen("etcd", "etcd Version: 3.7.3")}, {})
    assert [module.name for module in modules_to_build(statuses)] == ["kubernetes"]


def test_the_longest_build_begins_first() -> None:
    modules = modules_to_build(choose([tool.name for tool in TOOLS], {}, {}))
    assert modules[0].name == "pulumi-resource-kubernetes"
    seconds = [module.cold_seconds for module in modules]
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    ("cores", "memory_gib", "expected"),
    [(1, 2, 1), (2, 24, 1), (4, 16, 1), (8, 32, 2), (8, 8, 1), (16, 64, 4), (64, 20, 3)],
)
def test_builds_run_side_by_side_where_cores_and_memory_allow(
    cores: int, memory_gib: float, expected: int
) -> None:
    assert builds_at_once(cores, memory_gib) == expected
