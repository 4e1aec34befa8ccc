"""Running a playbook on hosts: a fresh private folder each time, and nothing left afterwards.

The traps of ansible-runner that shape this are tests in ``tests/hosts/test_runner.py``: a folder
that is used again keeps the variables of its first run; the whole environment is written into
artifacts; a timeout leaves the task running; no matching host is a success.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tokenworks.errors import OperationError
from tokenworks.hosts.inventory import Access, Host, Pool, inventory, ssh_config
from tokenworks.hosts.leftovers import MARK, end_leftovers
from tokenworks.hosts.outcome import DONE, REPORT, Ending, RunResult, Seen, judge
from tokenworks.hosts.progress import task_of

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = ROOT / "ansible"
PASSED_ON: Final = ("HOME", "SSH_AUTH_SOCK", "TZ", "LD_LIBRARY_PATH")
"""Variables of ours that a run needs; everything else, secrets among them, stays here."""
AWS_PASSED_ON: Final = (
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CA_BUNDLE",
)
"""Names of files and roles by which a run finds its rights in AWS, where it goes through it. Keys
themselves are not passed on, since ansible-runner writes down what it is given."""
SESSION_TOOL: Final = "session-manager-plugin"
COLLECTIONS: Final = ROOT / ".tokenworks" / "collections"
FORKS: Final = 20

Watch = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """What to run: a playbook of a project, whether it changes hosts, how long it may take."""

    name: str
    project: Path = PROJECT
    timeout_seconds: float
    changes: bool = False


@dataclass
class _Told:
    """What a worker has told so far."""

    seen: dict[str, Seen] = field(default_factory=dict)
    end: dict[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        data = event.get("event_data") or {}
        host = data.get("host")
        if not host:
            return
        before = self.seen.get(host, Seen(report={}))
        result = data.get("res") or {}
        kind = event.get("event")
        if kind == "runner_on_start":
            before = replace(before, task=task_of(event))
        elif kind == "runner_on_unreachable" or (
            kind == "runner_on_failed" and not data.get("ignore_errors")
        ):
            before = replace(before, failed_task=task_of(event), message=_message(result))
        before = replace(before, report={**before.report, **_reported(result)})
        self.seen[host] = before


def run_playbook(
    playbook: Playbook,
    pool: Pool,
    hosts: Sequence[Host],
    *,
    watch: Watch,
    cancelled: threading.Event | None = None,
) -> RunResult:
    """Run a playbook on some hosts of a pool and return what became of each of them.

    ``watch`` sees every event of Ansible. A timeout, a set ``cancelled`` or an interrupt ends every
    process of the run. An interrupt is raised on, once nothing is left.

    Raises:
        OperationError: there is no Ansible here, no kubectl to ask the cluster with, or processes
            of the run could not be ended.
    """
    with _private_folder() as private:
        mark = secrets.token_hex(16)
        asks = pool.kubeconfig != ""
        variables = _variables(private, playbook, pool.access, mark, asks=asks)
        job = _write_job(private, playbook, pool, hosts, mark)
        worker = subprocess.Popen(
            [sys.executable, "-m", "tokenworks.hosts.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            cwd=private,
            text=True,
            start_new_session=True,  # a Ctrl-C on the terminal is ours to handle
        )
        told = _Told()
        try:
            ending, said = _follow(worker, job, told, watch, playbook.timeout_seconds, cancelled)
        finally:
            _end(worker, mark, [host.name for host in hosts])
    end = told.end or {}
    names = [host.name for host in hosts]
    said = end.get("said") or said
    return judge(names, ending, end.get("counts"), told.seen, said, changes=playbook.changes)


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder that only we can read, gone when the run is over."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))  # short: paths of control sockets have limits
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(
    private: Path, playbook: Playbook, access: Access, mark: str, *, asks: bool
) -> dict[str, str]:
    """The environment of a run, from nothing; ansible-runner writes all of it down."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if shutil.which("ansible-playbook", path=path) is None:
        raise OperationError(
            "running Ansible",
            reason="there is no ansible-playbook beside this Python nor on the PATH",
            remedy="install the project with its dependencies, `make setup`",
        )
    if asks and shutil.which("kubectl", path=path) is None:
        raise OperationError(
            "asking the cluster for its nodes",
            reason="there is no kubectl on the PATH",
            remedy="install one within one minor version of the cluster's API server",
        )
    by_aws = access.session_manager is not None
    if by_aws:
        _refuse_without_sessions(path)
    names = (*PASSED_ON, *AWS_PASSED_ON) if by_aws else PASSED_ON
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(private),
        "ANSIBLE_CONFIG": str(playbook.project / "ansible.cfg"),
        "ANSIBLE_HOME": str(private / "home"),
        "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(private / "cp"),
        "ANSIBLE_SSH_COMMON_ARGS": f"-F {private / 'ssh_config'}",
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        MARK: mark,
    }


def _refuse_without_sessions(path: str) -> None:
    """Refuse to begin without the tool and the collection that a session needs."""
    if shutil.which(SESSION_TOOL, path=path) is None:
        raise OperationError(
            "running Ansible through Session Manager",
            reason=f"there is no {SESSION_TOOL} on the PATH",
            remedy="install it as docs.aws.amazon.com/systems-manager/latest/userguide/"
            "session-manager-working-with-install-plugin.html says",
        )
    if not (COLLECTIONS / "ansible_collections" / "amazon" / "aws").is_dir():
        raise OperationError(
            "running Ansible through Session Manager",
            reason=f"the collection amazon.aws is not in {COLLECTIONS}",
            remedy="run: ansible-galaxy collection install -r ansible/requirements.yml "
            f"-p {COLLECTIONS}",
        )


def _write_job(
    private: Path, playbook: Playbook, pool: Pool, hosts: Sequence[Host], mark: str
) -> dict[str, Any]:
    (private / "inventory").mkdir()
    told = private / "inventory" / "hosts.json"
    told.write_text(json.dumps(inventory(pool, hosts)))
    known_hosts = private / "known_hosts"
    known_hosts.write_text(pool.access.known_hosts)
    (private / "ssh_config").write_text(ssh_config(pool.access, hosts, known_hosts))
    return {
        "private": str(private),
        "project": str(playbook.project),
        "playbook": playbook.name,
        "inventory": str(told),
        "mark": mark,
    }


def _follow(
    worker: subprocess.Popen[str],
    job: dict[str, Any],
    told: _Told,
    watch: Watch,
    timeout_seconds: float,
    cancelled: threading.Event | None,
) -> tuple[Ending, str]:
    """Take what the worker tells until it ends, or must be ended."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    errors: list[str] = []
    readers = [
        threading.Thread(target=_read, args=(worker.stdout, lines.put), daemon=True),
        threading.Thread(target=_read, args=(worker.stderr, errors.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    assert worker.stdin is not None  # noqa: S101  (it was asked for)
    worker.stdin.write(json.dumps(job) + "\n")
    worker.stdin.flush()
    deadline = time.monotonic() + timeout_seconds
    while True:
        if cancelled is not None and cancelled.is_set():
            return Ending.CANCELLED, ""
        if time.monotonic() > deadline:
            return Ending.TIMEOUT, ""
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            continue
        if line is None:
            said = "".join(one for one in errors if one)[-2000:]
            return (Ending.COMPLETE if told.end else Ending.BROKEN), said
        found = json.loads(line)
        if "event" in found:
            told.take(found["event"])
            watch(found["event"])
        else:
            told.end = found["end"]


def _read(stream: Any, put: Callable[[Any], None]) -> None:
    """Hand on each line of a stream, and None at its end."""
    for line in stream:
        put(line)
    put(None)


def _end(worker: subprocess.Popen[str], mark: str, hosts: Sequence[str]) -> None:
    """End the worker and whatever it started, kept-open SSH connections among them."""
    left = end_leftovers(mark)
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(timeout=5)
    for stream in (worker.stdin, worker.stdout, worker.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if left:
        raise OperationError(
            f"ending the run on {', '.join(hosts)}",
            reason=f"processes {', '.join(map(str, left))} do not end",
            remedy="end them by hand before anything else is run on these hosts",
        )


def _reported(result: Mapping[str, Any]) -> dict[str, Any]:
    """What of a task's result is kept."""
    done = (result.get("ansible_facts") or {}).get(DONE)
    return {**(result.get(REPORT) or {}), **({DONE: True} if done else {})}


def _message(result: Mapping[str, Any]) -> str:
    """What a failed task says, without its traceback; of a loop, what its failed items say."""
    failed = [item for item in result.get("results", ()) if item.get("failed")]
    if failed:
        return "\n".join(dict.fromkeys(map(_message, failed)))
    parts = [str(result.get(key, "")).strip() for key in ("msg", "stderr", "module_stderr")]
    return "\n".join(dict.fromkeys(part for part in parts if part))
