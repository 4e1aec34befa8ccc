"""What is seen on a machine: working tools, broken ones, and ones that are not the user's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.toolchain.conftest import Pretend
from tokenworks.toolchain import look as looking
from tokenworks.toolchain.catalogue import TOOL
from tokenworks.toolchain.look import look


def test_a_tool_is_asked_for_its_version_as_it_wants_to_be_asked(
    pretend: Pretend, environ: dict[str, str], tmp_path: Path
) -> None:
    program = pretend("kubectl", 'echo "asked: $*"')
    seen = look(["kubectl"], environ, own=tmp_path / "cache")["kubectl"]
    assert (seen.path, seen.problem) == (program, "")
    assert seen.output == "asked: version --client\n"


def test_a_tool_that_is_not_there_is_not_seen(environ: dict[str, str], tmp_path: Path) -> None:
    assert look(list(TOOL), environ, own=tmp_path / "cache") == {}


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'pyenv: etcd: command not found' >&2; exit 127", "ends with code 127: pyenv: etcd:"),
        ("exit 3", "ends with code 3"),
        ("kill -9 $$", "ends with code -9"),
    ],
)
def test_a_tool_that_fails_has_a_problem(
    pretend: Pretend, environ: dict[str, str], tmp_path: Path, script: str, problem: str
) -> None:
    pretend("etcd", script)
    assert look(["etcd"], environ, own=tmp_path / "cache")["etcd"].problem.startswith(problem)


def test_a_file_of_another_machine_has_a_problem(
    path_folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    (path_folder / "etcd").write_bytes(b"\x7fELF not for here")
    (path_folder / "etcd").chmod(0o755)
    assert "does not start" in look(["etcd"], environ, own=tmp_path / "cache")["etcd"].problem


def test_a_tool_that_hangs_is_given_up_with_everything_it_started(
    pretend: Pretend, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "ANSWER_SECONDS", 0.5)
    pretend("etcd", f"/bin/sleep 60 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    seen = look(["etcd"], environ, own=tmp_path / "cache")["etcd"]
    assert seen.problem == "did not answer within 0.5 seconds"
    assert time.monotonic() - began < 10
    child = Path("/proc", (tmp_path / "child").read_text().strip())
    assert not child.exists() or (child / "cmdline").read_bytes() == b""


def test_only_the_first_on_path_is_looked_at(
    pretend: Pretend, environ: dict[str, str], tmp_path: Path
) -> None:
    pretend("etcd", "exit 1")
    later = tmp_path / "later"
    later.mkdir()
    (later / "etcd").write_text("#!/bin/sh\necho etcd Version: 3.7.3\n")
    (later / "etcd").chmod(0o755)
    path = os.pathsep.join((environ["PATH"], str(later)))
    assert look(["etcd"], {**environ, "PATH": path}, own=tmp_path / "cache")["etcd"].problem


def test_what_was_built_before_is_not_the_users_own(
    pretend: Pretend, environ: dict[str, str], path_folder: Path
) -> None:
    pretend("etcd", "echo etcd Version: 3.7.3")
    assert look(["etcd"], environ, own=path_folder.parent) == {}


def test_a_link_to_a_version_manager_is_called_by_the_tools_name(
    pretend: Pretend, environ: dict[str, str], path_folder: Path, tmp_path: Path
) -> None:
    pretend("manager", 'echo "$(/usr/bin/basename $0) Version: 3.7.3"')
    (path_folder / "etcd").symlink_to(path_folder / "manager")
    seen = look(["etcd"], environ, own=tmp_path / "cache")["etcd"]
    assert seen.output == "etcd Version: 3.7.3\n"


def test_the_language_host_is_looked_for_beside_pulumi_itself(
    pretend: Pretend, environ: dict[str, str], path_folder: Path, tmp_path: Path
) -> None:
    installed = tmp_path / "opt"
    installed.mkdir()
    for name in ("pulumi", "pulumi-language-python"):
        pretend(name, "echo v3.280.0").rename(installed / name)
    (path_folder / "pulumi").symlink_to(installed / "pulumi")
    pretend("pulumi-language-python", "echo of something else")
    seen = look(["pulumi"], environ, own=tmp_path / "cache")
    assert seen["pulumi"].path == path_folder / "pulumi"
    assert seen["pulumi-language-python"].path == installed / "pulumi-language-python"
    assert seen["pulumi"].folder == seen["pulumi-language-python"].folder == installed


def test_the_provider_is_looked_for_among_pulumis_plugins(
    environ: dict[str, str], tmp_path: Path
) -> None:
    tool = TOOL["pulumi-resource-kubernetes"]
    folder = Path(environ["HOME"], ".pulumi", "plugins", tool.plugin_folder)
    folder.mkdir(parents=True)
    (folder / tool.name).write_text("")
    assert look([tool.name], environ, own=tmp_path / "cache")[tool.name].path == folder / tool.name
    elsewhere = {**environ, "PULUMI_HOME": str(tmp_path / "other")}
    assert look([tool.name], elsewhere, own=tmp_path / "cache") == {}
    folder.with_name(f"{folder.name}.partial").write_text("")
    assert look([tool.name], environ, own=tmp_path / "cache") == {}, "half an installation"


def test_a_provider_on_path_does_not_count_as_it_cannot_say_its_version(
    pretend: Pretend, environ: dict[str, str], tmp_path: Path
) -> None:
    pretend("pulumi-resource-kubernetes", "echo v4.25.0")
    assert look(["pulumi-resource-kubernetes"], environ, own=tmp_path / "cache") == {}
