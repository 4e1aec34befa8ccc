"""Whose lock on a stack may still be at work, by where it lies and what it says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.operations.backends import Backend, Lock, local_backend
from tokenworks.workspace import Workspace

HERE = socket.gethostname()
STACK = "local-serving"
LOCKS = f".pulumi/locks/organization/tokenworks/{STACK}"
NOBODY = 2**22 + 1
"""Above every process id that Linux gives (proc(5), pid_max)."""


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return local_backend(Workspace(tmp_path))


def write_lock(backend: Backend, content: str) -> None:
    folder = Path(backend.variables["PULUMI_BACKEND_URL"].removeprefix("file://"), LOCKS)
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(content, "utf-8")


def lock(backend: Backend, pid: int, host: str = HERE) -> Lock:
    """A lock as Pulumi writes it, as the backend reads it."""
    write_lock(backend, json.dumps({"pid": pid, "hostname": host}))
    (found,) = backend.locks(STACK)
    return found


def test_a_lock_in_a_folder_is_at_work_while_pulumi_runs(backend: Backend, tmp_path: Path) -> None:
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "pulumi")
    with subprocess.Popen([program, "60"]) as process:
        found = lock(backend, process.pid)
        # A process has its program's name a moment after it was started.
        end = time.monotonic() + 10
        while not found.is_running():
            assert time.monotonic() < end
        process.kill()
    assert not found.is_running()


def test_a_lock_in_a_folder_is_dead_when_another_program_has_its_process_id(
    backend: Backend,
) -> None:
    assert not lock(backend, os.getpid()).is_running()


def test_a_lock_in_a_folder_of_another_host_may_be_at_work(backend: Backend) -> None:
    assert lock(backend, NOBODY, "elsewhere").is_running()


@pytest.mark.parametrize("host", [HERE, "elsewhere"])
def test_a_shared_lock_may_be_at_work_whatever_its_hostname(backend: Backend, host: str) -> None:
    assert lock(replace(backend, is_shared=True), NOBODY, host).is_running()


def test_a_lock_that_is_still_being_written_is_none_yet(backend: Backend) -> None:
    write_lock(backend, "{")
    assert backend.locks(STACK) == []
