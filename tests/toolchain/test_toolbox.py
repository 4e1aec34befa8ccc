"""Inspecting and ensuring, from names to programs that run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.toolchain.conftest import Pretend
from tokenworks.errors import OperationError
from tokenworks.toolchain import (
    NODE_TOOLS,
    TOOLS,
    Progress,
    State,
    Toolbox,
    ToolStatus,
    ensure,
    inspect,
)
from tokenworks.toolchain.build import published
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.catalogue import (
    MODULE,
    TOOL,
)
from tokenworks.toolchain.kinds import Module
from tokenworks.toolchain.toolbox import tools_folder

CLUSTER = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


def no_news(_: Progress) -> None:
    pytest.fail("something was built")


@pytest.fixture
def environ(environ: dict[str, str], cache: Cache) -> dict[str, str]:
    return {**environ, "TOKENWORKS_CACHE": str(cache.root)}


def put(cache: Cache, module: Module, names: Mapping[str, str]) -> Path:
    """Place a finished build into the cache."""
    folder = published(cache, tools_folder(), module)
    folder.mkdir(parents=True)
    for name, text in names.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "build.json").write_text("{}")
    return folder


def test_inspecting_a_bare_machine_finds_everything_missing_and_writes_nothing(
    environ: dict[str, str], cache: Cache
) -> None:
    statuses = inspect(environ=environ)
    assert [each.name for each in statuses] == [tool.name for tool in TOOLS]
    assert {each.state for each in statuses} == {State.MISSING}
    assert not cache.root.exists()


def test_a_machine_that_has_everything_builds_nothing(
    pretend: Pretend, environ: dict[str, str]
) -> None:
    for name in CLUSTER:
        pretend(name, "echo Kubernetes v1.35.9")
    toolbox = ensure(CLUSTER, no_news, environ=environ)
    assert {each.state for each in toolbox.statuses} == {State.FOUND}
    assert toolbox.path("kubectl") == Path(environ["PATH"], "kubectl")
    assert toolbox.search_path == (), "the user's own are on PATH already"
    with pytest.raises(KeyError):
        _ = toolbox.pulumi_home


def test_what_was_built_before_is_put_before_path(environ: dict[str, str], cache: Cache) -> None:
    folder = put(cache, MODULE["etcd"], {"etcd": ""})
    toolbox = ensure(["etcd"], no_news, environ=environ)
    assert toolbox.search_path == (folder,)
    assert toolbox.path("etcd") == folder / "etcd"


def test_a_build_without_one_of_its_programs_is_built_again_not_used(
    environ: dict[str, str], cache: Cache
) -> None:
    put(cache, MODULE["kwok"], {"kwok": ""})
    kwok, kwokctl = inspect(["kwok", "kwokctl"], environ=environ)
    assert (kwok.state, kwokctl.state) == (State.BUILT, State.MISSING)


def test_a_toolbox_does_not_have_what_it_was_not_asked_for(
    environ: dict[str, str], cache: Cache
) -> None:
    put(cache, MODULE["etcd"], {"etcd": ""})
    with pytest.raises(KeyError):
        ensure(["etcd"], no_news, environ=environ).path("kubectl")


def built_pulumi(cache: Cache) -> None:
    put(cache, MODULE["pulumi"], {"pulumi": "p"})
    host = {"pulumi-language-python": "h", "pulumi-language-python-exec": "e"}
    put(cache, MODULE["pulumi-language-python"], host)
    put(cache, MODULE["pulumi-resource-kubernetes"], {"pulumi-resource-kubernetes": "k"})


def test_pulumi_its_host_and_the_provider_share_a_home_as_if_installed(
    environ: dict[str, str], cache: Cache
) -> None:
    built_pulumi(cache)
    toolbox = ensure(["pulumi", "pulumi-resource-kubernetes"], no_news, environ=environ)
    home = toolbox.pulumi_home
    assert {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} == {
        "bin/pulumi",
        "bin/pulumi-language-python",
        "bin/pulumi-language-python-exec",
        f"plugins/{TOOL['pulumi-resource-kubernetes'].plugin_folder}/pulumi-resource-kubernetes",
    }
    assert toolbox.search_path == (home / "bin",), "the provider is a plugin, no command"
    assert toolbox.path("pulumi-language-python") == home / "bin" / "pulumi-language-python"
    assert toolbox.path("pulumi").stat().st_nlink == 2, "linked, not copied"


def test_the_home_is_made_once(environ: dict[str, str], cache: Cache) -> None:
    built_pulumi(cache)
    first = ensure(["pulumi", "pulumi-resource-kubernetes"], no_news, environ=environ)
    (first.pulumi_home / "credentials.json").write_text("kept")
    again = ensure(["pulumi-resource-kubernetes", "pulumi"], no_news, environ=environ)
    assert again.pulumi_home == first.pulumi_home
    assert (again.pulumi_home / "credentials.json").read_text() == "kept"


def test_a_shell_that_already_has_the_tools_on_its_path_gets_the_same_toolbox(
    environ: dict[str, str], cache: Cache
) -> None:
    built_pulumi(cache)
    put(cache, MODULE["etcd"], {"etcd": ""})
    names = ["pulumi", "pulumi-resource-kubernetes", "etcd"]
    first = ensure(names, no_news, environ=environ)
    inside = {
        **environ,
        "PATH": ":".join(str(folder) for folder in first.search_path),
        "PULUMI_HOME": str(first.pulumi_home),
    }
    assert ensure(names, no_news, environ=inside) == first


def test_a_failed_build_says_what_failed_and_keeps_what_was_finished(
    environ: dict[str, str], cache: Cache, tmp_path: Path
) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go on PATH")
    tools = tmp_path / "broken"
    for module in MODULE.values():
        (tools / module.name).mkdir(parents=True)
        (tools / module.name / "go.mod").write_text("module x.test/x\n\ngo 1.26\n")
    news: list[Progress] = []
    with_go = {**environ, "PATH": str(Path(go).parent), "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    with pytest.raises(OperationError, match=r"building etcd .* from tools/etcd"):
        ensure(["etcd"], news.append, environ=with_go, tools=tools)
    assert news[-1].phase.value == "failed"
    assert not (cache.root / "tools").exists()


@pytest.mark.cluster
def test_every_tool_runs_and_says_the_version_that_its_status_names(toolbox: Toolbox) -> None:
    statuses: tuple[ToolStatus, ...] = toolbox.statuses
    wanted = {tool.name for tool in TOOLS} - set(NODE_TOOLS)
    assert {each.name for each in statuses} == wanted
    assert {each.state for each in statuses} <= {State.BUILT, State.FOUND}
    for each in statuses:
        assert toolbox.path(each.name).is_file()


@pytest.mark.cluster
def test_looking_again_finds_the_same_and_builds_nothing(toolbox: Toolbox) -> None:
    assert ensure([each.name for each in toolbox.statuses], no_news) == toolbox
