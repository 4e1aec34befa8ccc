"""Pools of hosts under the real Pulumi CLI, its engine and its dynamic provider.

The playbooks are small stand-ins on this machine; what becomes of their runs is the real thing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.hosts import ansible_project, samples
from tests.hosts.ansible_project import pool
from tokenworks.hosts.inventory import Pool
from tokenworks.toolchain import Toolbox

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).parents[2]
PASSPHRASE = "hunter2-of-the-provider"  # noqa: S105  made up, and must not be seen again
PROGRAM = """\
import json
from pathlib import Path

import pulumi
from pydantic import TypeAdapter

from tokenworks.components.host_pool import PreparedHosts
from tokenworks.hosts.inventory import Pool

pool = TypeAdapter(Pool).validate_python(json.loads(Path("pool.json").read_text()))
made = PreparedHosts("h100", pool)
pulumi.export("hosts", made.hosts)
pulumi.export("drift", made.drift)
"""
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


@dataclass(frozen=True)
class Project:
    """A Pulumi project in a folder of its own, with the package and its playbooks beside it."""

    folder: Path
    environment: dict[str, str]

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def command(self, *arguments: str) -> list[str]:
        return ["pulumi", *arguments, "--stack", "test", "--non-interactive"]

    def up(self) -> subprocess.CompletedProcess[str]:
        return self.pulumi("up", "--yes", "--skip-preview", "--color", "never")

    def output(self, name: str) -> Any:
        return json.loads(self.pulumi("stack", "output", name, "--json").stdout)

    def state(self) -> dict[str, Any]:
        """Outputs of the pool as the state has them; a refresh runs no program."""
        found = json.loads(self.pulumi("stack", "export").stdout)["deployment"]["resources"]
        outputs: dict[str, Any] = next(r for r in found if r["urn"].endswith("::h100"))["outputs"]
        return outputs

    def ask(self, wanted: Pool) -> None:
        text = json.dumps(TypeAdapter(Pool).dump_python(wanted, mode="json"))
        (self.folder / "pool.json").write_text(text)

    def playbook(self, name: str, text: str) -> None:
        (self.folder / "ansible" / f"{name}.yml").write_text(text)

    def find(self, *found: str) -> None:
        (self.folder / "found.json").write_text(json.dumps(found))

    def processes(self) -> list[str]:
        """Command lines of processes that run Ansible on this project."""
        wanted = f"ANSIBLE_CONFIG={self.folder / 'ansible' / 'ansible.cfg'}".encode()
        lines = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (place / "environ").read_bytes().split(b"\0"):
                    lines.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return lines


@pytest.fixture
def project(toolbox: Toolbox, tmp_path: Path) -> Project:
    folder, state = tmp_path / "project", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tokenworks", folder / "tokenworks", ignore=skipped)
    shutil.copytree(REPOSITORY / "templates", folder / "templates")
    (folder / "Pulumi.yaml").write_text("name: hosts\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM)
    ansible_project.project(folder / "ansible")
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join(
            map(str, [*toolbox.search_path, Path(sys.executable).parent, os.environ["PATH"]])
        ),
        "PYTHONPATH": str(folder),
        "PULUMI_HOME": str(toolbox.pulumi_home),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    made = Project(folder, environment)
    read = READ.format(folder=folder)
    made.playbook("prepare", PREPARE.format(folder=folder) + read)
    verify = "- hosts: all\n  gather_facts: false\n  tasks:" + read + VERIFY.format(folder=folder)
    made.playbook("verify", verify)
    made.find()
    for name in ("gpu-1", "gpu-2"):
        seen = {"observed": {"driver": samples.DRIVER}}
        (folder / f"seen-{name}").write_text(json.dumps(seen))
    made.ask(pool(folder, "gpu-1", "gpu-2"))
    created = made.pulumi("stack", "init")
    assert created.returncode == 0, created.stdout
    return made


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
    project.ask(Pool(**{**vars(wanted), "lock": lock}))
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
    project.find("nvidia-utils-580 is at 580.178.04, locked at 580.159.04")
    refreshed = project.pulumi("refresh", "--yes", "--skip-preview", "--color", "never")
    assert refreshed.returncode == 0, refreshed.stdout
    assert "580.178.04" in project.state()["drift"]["gpu-1"][0]
    project.find()
    done = project.up()
    assert "~ 1 updated" in done.stdout, done.stdout
    assert prepared(project, "gpu-1")
    assert project.state()["drift"] == {}


def test_a_refresh_that_cannot_look_says_so_and_keeps_what_was_known(project: Project) -> None:
    assert project.up().returncode == 0
    (project.folder / "seen-gpu-2").unlink()
    refreshed = project.pulumi("refresh", "--yes", "--skip-preview", "--color", "never")
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
    temporary = project.folder / "tmp"
    temporary.mkdir()
    project.environment["TMPDIR"] = str(temporary)
    assert project.up().returncode == 0
    assert prepared(project, "gpu-1").strip() == samples.KERNEL
    exported = project.pulumi("stack", "export", "--show-secrets").stdout
    assert "gpu-1" in exported
    assert PASSPHRASE not in exported
    assert list(temporary.glob("tw-*")) == []


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
    running = subprocess.Popen(
        project.command("up", "--yes", "--skip-preview"),
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
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


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)
