"""Pools of hosts under the real Pulumi CLI, its engine and its dynamic provider.

The playbooks are small stand-ins on this machine; what becomes of their runs is the real thing.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts import ansible_project, pulumi_project, samples
from tests.hosts.ansible_project import pool
from tests.hosts.pulumi_project import PASSPHRASE, Project, until
from tokenworks.toolchain import Toolbox

pytestmark = pytest.mark.cluster

READ = """
    - name: Read the host
      report:
        tokenworks: "{{{{ lookup('file', '{folder}/seen-' + inventory_hostname) | from_json }}}}"
"""
PREPARE = """- hosts: all
  gather_facts: false
  tasks:
    - name: Note what is asked for
      ansible.builtin.copy:
        dest: "{folder}/prepared-{{{{ inventory_hostname }}}}"
        content: "{{{{ host_lock.kernel }}}} {{{{ lookup('env', 'PULUMI_CONFIG_PASSPHRASE') }}}}"
        mode: "0600"
"""
VERIFY = """
    - name: Expect a host as locked
      ansible.builtin.assert:
        that: found == []
        fail_msg: "{{{{ found | join(', ') }}}}"
      vars:
        found: "{{{{ lookup('file', '{folder}/found.json') | from_json }}}}"
"""


@pytest.fixture
def project(toolbox: Toolbox, tmp_path: Path) -> Project:
    made = pulumi_project.project(toolbox, tmp_path)
    folder = made.folder
    ansible_project.project(folder / "ansible")
    read = READ.format(folder=folder)
    made.playbook("prepare", PREPARE.format(folder=folder) + read)
    verify = "- hosts: all\n  gather_facts: false\n  tasks:" + read + VERIFY.format(folder=folder)
    made.playbook("verify", verify)
    find(made)
    for name in ("gpu-1", "gpu-2"):
        see(made, name)
    made.ask(pool(folder, "gpu-1", "gpu-2"))
    return made


def see(project: Project, host: str) -> None:
    """What is seen of a host."""
    seen = {"observed": {"driver": samples.DRIVER}}
    (project.folder / f"seen-{host}").write_text(json.dumps(seen))


def find(project: Project, *found: str) -> None:
    """What a verification finds."""
    (project.folder / "found.json").write_text(json.dumps(found))


def prepared(project: Project, host: str) -> str:
    return (project.folder / f"prepared-{host}").read_text()


def test_hosts_are_prepared_once_and_again_only_when_what_is_asked_changes(
    project: Project,
) -> None:
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "+ 2 created" in done.stdout
    assert project.output("hosts")["gpu-1"]["observed"]["driver"] == samples.DRIVER
    assert prepared(project, "gpu-2").split()[0] == samples.KERNEL
    again = project.up()
    assert "2 unchanged" in again.stdout, again.stdout
    wanted = pool(project.folder, "gpu-1", "gpu-2")
    lock = wanted.lock.model_copy(update={"kernel": "6.8.0-90-generic"})
    project.ask(replace(wanted, lock=lock))
    changed = project.up()
    assert "~ 1 updated" in changed.stdout, changed.stdout
    assert prepared(project, "gpu-1").split()[0] == "6.8.0-90-generic"


def test_a_role_that_changes_is_run_again(project: Project) -> None:
    assert project.up().returncode == 0
    project.playbook("later", "- hosts: all\n  tasks: []\n")
    assert "~ 1 updated" in project.up().stdout


def test_a_drift_is_shown_by_a_refresh_and_repaired_by_the_next_update(project: Project) -> None:
    assert project.up().returncode == 0
    (project.folder / "prepared-gpu-1").unlink()
    find(project, "nvidia-utils-580 is at 580.178.04, locked at 580.159.04")
    refreshed = project.refresh()
    assert refreshed.returncode == 0, refreshed.stdout
    assert "580.178.04" in project.state()["drift"]["gpu-1"][0]
    find(project)
    done = project.up()
    assert "~ 1 updated" in done.stdout, done.stdout
    assert prepared(project, "gpu-1")
    assert project.state()["drift"] == {}


def test_a_refresh_that_cannot_look_says_so_and_keeps_what_was_known(project: Project) -> None:
    assert project.up().returncode == 0
    (project.folder / "seen-gpu-2").unlink()
    refreshed = project.refresh()
    assert refreshed.returncode != 0
    assert "gpu-2 failed" in refreshed.stdout
    assert set(project.output("hosts")) == {"gpu-1", "gpu-2"}


NO_HOST = "- hosts: stranger\n  gather_facts: false\n  tasks: []\n"
ONE_HOST = "- hosts: gpu-1\n  gather_facts: false\n  tasks: []\n"
DARK = (
    "- hosts: all\n  gather_facts: false\n  vars: {ansible_connection: ssh, ansible_port: 1}\n"
    "  tasks:\n    - name: Ping\n      ansible.builtin.ping:\n"
)
BROKEN = "- hosts: all\n  taskz: []\n"


@pytest.mark.parametrize(
    ("playbook", "told"),
    [
        (NO_HOST, "gpu-1 not processed: Ansible matched no host"),
        (ONE_HOST, "gpu-2 not processed: "),
        (DARK, "gpu-1 unreachable: at Ping: "),
        (BROKEN, "gpu-2 not processed: "),
    ],
    ids=["no host matched", "fewer hosts than expected", "dark", "no final count"],
)
def test_a_run_that_did_not_reach_every_host_fails_the_update_with_the_hosts_name(
    playbook: str, told: str, project: Project
) -> None:
    project.playbook("prepare", playbook)
    done = project.up()
    assert done.returncode != 0
    assert told in done.stdout
    assert "hosts are not good" in done.stdout


def test_no_secret_of_ours_reaches_hosts_or_state(project: Project) -> None:
    assert project.up().returncode == 0
    assert prepared(project, "gpu-1").strip() == samples.KERNEL
    exported = project.pulumi("stack", "export", "--show-secrets").stdout
    assert "gpu-1" in exported
    assert PASSPHRASE not in exported
    assert list((project.folder / "tmp").glob("tw-*")) == []


def sleeping(project: Project) -> str:
    return (
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Sleep\n"
        f"      ansible.builtin.shell: echo $$ >> {project.folder}/asleep; exec sleep 600\n"
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["cancelled", "killed"])
def test_an_update_that_is_cut_off_leaves_nothing_running_and_can_be_repeated(
    how: signal.Signals, project: Project
) -> None:
    good = (project.folder / "ansible" / "prepare.yml").read_text()
    project.playbook("prepare", sleeping(project))
    running = project.begin()
    until((project.folder / "asleep").exists)
    assert project.processes()
    os.killpg(running.pid, how)
    if how is signal.SIGINT:  # the first one asks to finish what has begun, which takes hours
        time.sleep(2)
        os.killpg(running.pid, how)
    running.wait()
    until(lambda: not project.processes())
    for process in (project.folder / "asleep").read_text().split():
        assert not lives(process)
    project.playbook("prepare", good)
    project.pulumi("cancel", "--yes")
    done = project.up()
    assert done.returncode == 0, done.stdout


def lives(process: str) -> bool:
    """Whether a process runs; one that has ended and is not yet asked for has no command line."""
    try:
        return bool(Path("/proc", process, "cmdline").read_bytes())
    except OSError:
        return False


def test_a_run_that_takes_too_long_fails_the_update_with_its_task_and_leaves_nothing_running(
    project: Project,
) -> None:
    good = (project.folder / "ansible" / "prepare.yml").read_text()
    project.playbook("prepare", sleeping(project))
    project.playbook("check", "- hosts: all\n  gather_facts: false\n  tasks: []\n")
    wanted = pool(project.folder, "gpu-1")
    hurried = wanted.settings.model_copy(update={"turn_timeout_seconds": 20})
    project.ask(replace(wanted, settings=hurried))
    done = project.up()
    assert done.returncode != 0
    assert "gpu-1 cut off: at Sleep: the time for the run was over" in done.stdout
    assert "tokenworks hosts check" in done.stdout
    assert project.processes() == []
    for process in (project.folder / "asleep").read_text().split():
        assert not lives(process)
    project.playbook("prepare", good)
    project.ask(wanted)
    done = project.up()
    assert done.returncode == 0, done.stdout


TOLD = """- hosts: all
  gather_facts: false
  tasks:
    - name: Note what is told
      ansible.builtin.copy:
        dest: "{folder}/told-{{{{ host_pool }}}}-{{{{ host_settings.expected_gpus }}}}"
        content: "{{{{ host_settings.apt_proxy or 'none' }}}} {{{{ lookup('env', 'TMPDIR') }}}}"
        mode: "0600"
"""


def test_no_run_knows_the_variables_of_another_one_before_it_or_beside_it(
    project: Project,
) -> None:
    """One folder for several runs would keep the variables of its first (ansible-runner)."""
    folder = project.folder
    read = READ.format(folder=folder)
    project.playbook("prepare", TOLD.format(folder=folder) + read)
    pools = [
        replace(
            pool(folder, f"gpu-{number}", gpus=number),
            name=name,
            settings=pool(folder, gpus=number).settings.model_copy(update={"apt_proxy": proxy}),
        )
        for name, number, proxy in (("first", 1, "http://proxy:3128"), ("second", 2, None))
    ]
    project.ask(*pools)
    done = project.up()
    assert done.returncode == 0, done.stdout
    told = {file.name: file.read_text().split() for file in folder.glob("told-*")}
    assert {name: words[0] for name, words in told.items()} == {
        "told-first-1": "http://proxy:3128",
        "told-second-2": "none",
    }
    forgot = pools[0].settings.model_copy(update={"apt_proxy": None, "expected_gpus": 4})
    project.ask(replace(pools[0], settings=forgot), pools[1])
    changed = project.up()
    assert "~ 1 updated" in changed.stdout, changed.stdout
    told["again"] = (folder / "told-first-4").read_text().split()
    assert told["again"][0] == "none"
    folders = {words[1] for words in told.values()}
    assert len(folders) == len(told)
    assert not any(Path(each).exists() for each in folders)
