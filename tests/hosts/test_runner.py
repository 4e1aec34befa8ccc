"""Every trap of ansible-runner, with the real one: what it calls success, and what it leaves."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.ansible_project import pool, project
from tokenworks.errors import OperationError
from tokenworks.hosts.outcome import Ending, HostResult, Outcome, RunResult
from tokenworks.hosts.runner import ROOT, Playbook, run_playbook

GOOD = """
    - name: Say what is seen
      ansible.builtin.command: "true"
      changed_when: false
"""
SLEEP = """
    - name: Sleep
      ansible.builtin.command: sleep {seconds}
"""
SECRET = "hunter2-of-the-runner"  # noqa: S105  made up, and must not be seen again


def nothing(_event: Mapping[str, Any]) -> None:
    """Watch, and do nothing."""


def ran(
    folder: Path,
    tasks: str,
    *names: str,
    timeout: float = 120,
    changes: bool = False,
    cancelled: threading.Event | None = None,
    watch: Any = nothing,
    gpus: int = 8,
    kubeconfig: str = "",
) -> RunResult:
    made = project(folder / "project", site=tasks)
    plain = pool(folder, *(names or ("gpu-1",)), gpus=gpus)
    hosts = dataclasses.replace(plain, kubeconfig=kubeconfig)
    playbook = Playbook(name="site.yml", project=made, changes=changes, timeout_seconds=timeout)
    return run_playbook(playbook, hosts, hosts.hosts, watch=watch, cancelled=cancelled)


def only(result: RunResult) -> HostResult:
    assert len(result.hosts) == 1
    return result.hosts[0]


def running(argument: str) -> list[str]:
    """Command lines of processes with an argument."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)  # noqa: S607
    return [line for line in done.stdout.splitlines() if argument in line]


def unique_sleep() -> str:
    return f"7{time.time_ns() % 10**9}.25"


def test_a_good_run_counts_every_host(tmp_path: Path) -> None:
    result = ran(tmp_path, GOOD, "gpu-1", "gpu-2")
    assert result.good
    assert [(one.host, one.outcome) for one in result.hosts] == [
        ("gpu-1", Outcome.SAME),
        ("gpu-2", Outcome.SAME),
    ]


def test_a_run_that_matches_no_host_is_no_success(tmp_path: Path) -> None:
    result = ran(tmp_path, "- hosts: stranger\n  tasks: []\n", "gpu-1")
    assert not result.good
    assert only(result).outcome is Outcome.NOT_PROCESSED
    assert only(result).message == "Ansible matched no host"


def test_a_host_that_the_playbook_leaves_out_is_named(tmp_path: Path) -> None:
    play = "- hosts: gpu-1\n  gather_facts: false\n  tasks:\n" + GOOD
    result = ran(tmp_path, play, "gpu-1", "gpu-2")
    assert not result.good
    assert [one.outcome for one in result.hosts] == [Outcome.SAME, Outcome.NOT_PROCESSED]
    assert "never came to this host" in result.hosts[1].message


def test_a_host_that_does_not_answer_is_unreachable_and_the_other_one_is_good(
    tmp_path: Path,
) -> None:
    play = (
        "- hosts: all\n  gather_facts: false\n  vars:\n"
        "    ansible_connection: \"{{ 'ssh' if inventory_hostname == 'gpu-2' else 'local' }}\"\n"
        "    ansible_port: 1\n  tasks:\n" + GOOD
    )
    result = ran(tmp_path, play, "gpu-1", "gpu-2")
    assert not result.good
    assert [one.outcome for one in result.hosts] == [Outcome.SAME, Outcome.UNREACHABLE]
    assert "Connection refused" in result.hosts[1].message
    assert "log in by hand" in result.hosts[1].remedy


def test_a_task_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    tasks = """
    - name: Ask for the impossible
      ansible.builtin.fail:
        msg: there is no such driver; lock another one
"""
    host = only(ran(tmp_path, tasks))
    assert host.outcome is Outcome.FAILED
    assert host.task == "Ask for the impossible"
    assert host.message == "there is no such driver; lock another one"


def test_an_error_that_the_playbook_ignores_is_none(tmp_path: Path) -> None:
    tasks = """
    - name: Try
      ansible.builtin.command: "false"
      ignore_errors: true
      changed_when: false
"""
    assert ran(tmp_path, tasks).good


def test_a_playbook_that_does_not_parse_fails_every_host_with_its_words(tmp_path: Path) -> None:
    result = ran(tmp_path, "- hosts: all\n  taskz: []\n", "gpu-1", "gpu-2")
    assert not result.good
    assert {one.outcome for one in result.hosts} == {Outcome.NOT_PROCESSED}
    assert all("taskz" in one.message for one in result.hosts)


def test_a_run_whose_ansible_is_killed_has_no_count_and_is_broken(tmp_path: Path) -> None:
    seconds = unique_sleep()

    def kill_ansible(event: Mapping[str, Any]) -> None:
        if event["event"] == "runner_on_start":
            for process in of_project(tmp_path / "project", "ansible-playbook"):
                os.kill(process, signal.SIGKILL)

    result = ran(tmp_path, SLEEP.format(seconds=seconds), watch=kill_ansible)
    assert result.ending is Ending.BROKEN
    assert only(result).outcome is Outcome.CUT_OFF
    assert "without its final count" in only(result).message
    assert running(seconds) == []


def of_project(folder: Path, program: str) -> list[int]:
    """Processes that run a program of Ansible's on a project."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (place / "environ").read_bytes().split(b"\0")
            ours = f"ANSIBLE_CONFIG={folder / 'ansible.cfg'}".encode() in variables
            if ours and program.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def test_a_timeout_names_the_task_and_leaves_nothing_running(tmp_path: Path) -> None:
    seconds = unique_sleep()
    host = only(result := ran(tmp_path, SLEEP.format(seconds=seconds), timeout=6))
    assert result.ending is Ending.TIMEOUT
    assert (host.outcome, host.task) == (Outcome.CUT_OFF, "Sleep")
    assert "the time for the run was over" in host.message
    assert running(seconds) == []


def test_a_cancelled_run_leaves_nothing_running(tmp_path: Path) -> None:
    seconds, cancelled = unique_sleep(), threading.Event()

    def cancel_once_it_sleeps(event: Mapping[str, Any]) -> None:
        if event["event"] == "runner_on_start":
            while not running(seconds):
                time.sleep(0.05)
            cancelled.set()

    result = ran(
        tmp_path, SLEEP.format(seconds=seconds), cancelled=cancelled, watch=cancel_once_it_sleeps
    )
    assert result.ending is Ending.CANCELLED
    assert only(result).outcome is Outcome.CUT_OFF
    assert running(seconds) == []


def test_an_interrupt_leaves_nothing_running_and_is_raised_on(tmp_path: Path) -> None:
    seconds = unique_sleep()

    def interrupt(event: Mapping[str, Any]) -> None:
        if event["event"] == "runner_on_start":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, SLEEP.format(seconds=seconds), watch=interrupt)
    assert running(seconds) == []


def test_a_run_ends_with_whoever_asked_for_it(tmp_path: Path) -> None:
    seconds = unique_sleep()
    project(tmp_path / "project", site=SLEEP.format(seconds=seconds))
    program = (
        "from pathlib import Path\n"
        "from tests.hosts.ansible_project import pool\n"
        "from tokenworks.hosts.runner import Playbook, run_playbook\n"
        f"hosts = pool(Path({str(tmp_path)!r}), 'gpu-1')\n"
        f"playbook = Playbook(name='site.yml', project=Path({str(tmp_path / 'project')!r}), "
        "timeout_seconds=600)\n"
        "run_playbook(playbook, hosts, hosts.hosts, watch=lambda event: None)\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    asking = subprocess.Popen([sys.executable, "-c", program], env=variables)
    while not running(seconds):
        assert asking.poll() is None
        time.sleep(0.1)
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    while running(seconds):
        time.sleep(0.1)


def test_a_second_run_knows_nothing_of_the_variables_of_the_first(tmp_path: Path) -> None:
    tasks = """
    - name: Report
      ansible.builtin.set_fact:
        seen: "{{ host_settings.expected_gpus }}"
    - name: Keep
      ansible.builtin.assert:
        that: host_settings.expected_gpus == wanted | int
        fail_msg: "saw {{ host_settings.expected_gpus }}"
      vars:
        wanted: WANTED
"""
    assert ran(tmp_path, tasks.replace("WANTED", "8"), gpus=8).good
    assert ran(tmp_path, tasks.replace("WANTED", "4"), gpus=4).good
    assert "saw 4" in only(ran(tmp_path, tasks.replace("WANTED", "8"), gpus=4)).message


def test_secrets_of_ours_are_seen_by_no_run_and_its_folder_is_private_and_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", SECRET)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    tasks = """
    - name: Look around
      ansible.builtin.shell: env
      changed_when: false
"""
    told: list[str] = []
    modes: set[int] = set()

    def look(event: Mapping[str, Any]) -> None:
        told.append(repr(event))
        for folder in tmp_path.glob("tw-*"):
            modes.add(folder.stat().st_mode & 0o777)
            # Ansible removes folders of its own meanwhile; then the rest is read at the next event.
            with contextlib.suppress(FileNotFoundError):
                told.extend(
                    file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()
                )

    assert ran(tmp_path, tasks, watch=look).good
    assert modes == {0o700}
    assert "TOKENWORKS_RUN" in "".join(told)
    assert SECRET not in "".join(told)
    assert list(tmp_path.glob("tw-*")) == []


def test_a_second_run_finds_nothing_left_to_change(tmp_path: Path) -> None:
    tasks = f"""
    - name: Write
      ansible.builtin.copy:
        dest: {tmp_path / "written"}
        content: text
        mode: "0600"
"""
    assert only(ran(tmp_path, tasks)).outcome is Outcome.CHANGED
    assert only(ran(tmp_path, tasks)).outcome is Outcome.SAME


def test_a_host_whose_turn_never_came_is_not_good(tmp_path: Path) -> None:
    play = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Plan
      report:
        tokenworks: {changes: {steps: [packages]}}
- hosts: all
  gather_facts: false
  serial: 1
  any_errors_fatal: true
  tasks:
    - name: Change
      ansible.builtin.command: "true"
      when: inventory_hostname != 'gpu-2'
    - name: Fail
      ansible.builtin.fail:
        msg: broken
      when: inventory_hostname == 'gpu-2'
    - name: Settle
      ansible.builtin.set_fact:
        host_done: true
"""
    result = ran(tmp_path, play.lstrip(), "gpu-1", "gpu-2", "gpu-3", changes=True)
    assert [one.outcome for one in result.hosts] == [
        Outcome.CHANGED,
        Outcome.FAILED,
        Outcome.NOT_PROCESSED,
    ]
    assert "its turn did not come" in result.hosts[2].message


def test_hosts_run_with_the_interpreter_that_is_named(tmp_path: Path) -> None:
    tasks = """
    - name: Look
      ansible.builtin.assert:
        that: ansible_python_interpreter == '/usr/bin/python3'
        fail_msg: "{{ ansible_python_interpreter }}"
"""
    assert ran(tmp_path, tasks).good


def test_without_ansible_the_remedy_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationError, match=r"no ansible-playbook .*; install the project"):
        ran(tmp_path, GOOD)


@pytest.mark.parametrize("changes", [True, False], ids=["prepare", "look"])
def test_without_kubectl_no_host_is_touched_whose_node_must_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationError, match=r"no kubectl on the PATH; install one within one"):
        ran(tmp_path, GOOD, changes=changes, kubeconfig="~/.kube/config")


def test_the_keys_of_the_hosts_lie_where_ssh_is_told_to_look(tmp_path: Path) -> None:
    """As their text: the file that they came from may be in another checkout."""
    keys = "gpu-1 ssh-ed25519 AAAA-of-the-test"
    script = tmp_path / "look"
    script.write_text(
        'file=$(sed -n "s/^  UserKnownHostsFile //p" "${ANSIBLE_SSH_COMMON_ARGS#-F }")\n'
        f"eval cp $file {tmp_path / 'seen'}\n"
    )
    look = GOOD.replace('"true"', f"sh {script}")
    made = project(tmp_path / "project", site=look)
    plain = pool(tmp_path, "gpu-1")
    access = dataclasses.replace(plain.access, known_hosts=f"{keys}\n")
    asked = dataclasses.replace(plain, access=access)
    playbook = Playbook(name="site.yml", project=made, timeout_seconds=120)
    assert only(run_playbook(playbook, asked, asked.hosts, watch=nothing)).outcome.good
    assert (tmp_path / "seen").read_text() == f"{keys}\n"
