"""Programs that pretend to be tools, and small Go modules that take a second to build."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster_fixtures import toolbox
from tokenworks.toolchain.build import Builder
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.golang import find_go
from tokenworks.toolchain.kinds import Module, Package
from tokenworks.toolchain.news import Progress
from tokenworks.toolchain.running import Commands

__all__ = ["toolbox"]

Pretend = Callable[[str, str], Path]


@pytest.fixture
def path_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    return folder


@pytest.fixture
def pretend(path_folder: Path) -> Pretend:
    """Put a shell script on the PATH of the test, under the name of a tool."""

    def write(name: str, script: str) -> Path:
        program = path_folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return write


@pytest.fixture
def environ(path_folder: Path, tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(path_folder), "HOME": str(tmp_path / "home")}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


HELLO = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("etcd Version: 3.7.3") }\n'


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder like the checkout's ``tools``, with one module that builds in a second."""
    folder = tmp_path / "tools" / "etcd"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module example.test/server\n\ngo 1.26\n")
    (folder / "main.go").write_text(HELLO)
    return folder.parent


SMALL = Module(
    name="etcd",
    version="3.7.3",
    packages=(Package(path=".", compiles_to="server", name="etcd"),),
    cold_seconds=1,
)
"""A module that says it is etcd, so that it is tried out as etcd is."""


class Build(Protocol):
    """Builds a module; its news go into the list."""

    def __call__(self, module: Module, news: list[Progress] | None = None) -> None: ...


@pytest.fixture
def build(cache: Cache, tools: Path) -> Build:
    """Build a module of the test's tools into the test's cache, with the real Go."""
    if shutil.which("go") is None:
        pytest.skip("no Go on PATH; what the catalogue builds is tried by the cluster tests")

    go, because = find_go(os.environ)
    if go is None:
        pytest.skip(because)

    def run(module: Module, news: list[Progress] | None = None) -> None:
        cache.prepare()
        heard: list[Progress] = [] if news is None else news
        Builder(
            cache=cache,
            tools=tools,
            go=go,
            environ=os.environ,
            commands=Commands(),
            report=heard.append,
            at_once=1,
        ).build(module)

    return run


def run(*command: object) -> str:
    """What a program prints."""
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True
    ).stdout
