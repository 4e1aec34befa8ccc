"""`tokenworks gateway serve`: every process real, on real sockets, and nothing left afterwards."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tokenworks.errors import ConfigError, OperationError
from tokenworks.gateway.layout import (
    LOOPBACK,
    Folders,
    engine_specs,
    local_plan,
    port_names,
    substitution,
)
from tokenworks.gateway.served import is_served
from tokenworks.gateway.supervisor import Supervisor
from tokenworks.local_cluster.processes import started_by
from tokenworks.operations.certificates import ensure_certificate
from tokenworks.operations.gateway_control import change_engine, find, parts_of, set_running
from tokenworks.operations.gateway_serve import folders_of, serve
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

CHECKOUT = Path(__file__).resolve().parents[2]
CASE = CHECKOUT / "tests" / "cases" / "gateway" / "every-feature.yaml"
NAME = "everything"
CHAT = "/v1/chat/completions"
BASH = shutil.which("bash") or "bash"


def workspace_in(folder: Path) -> Workspace:
    """A checkout of its own with one environment, whose gateway has every feature."""
    workspace = Workspace(folder)
    shutil.copytree(CHECKOUT / "stacks" / "weights", workspace.stacks / "weights")
    shutil.copyfile(CHECKOUT / "stacks" / "images.lock", workspace.stacks / "images.lock")
    shutil.copyfile(CASE, workspace.stacks / f"{NAME}.yaml")
    # An authority whose key is not on the machine that serves.
    elsewhere = folder / "elsewhere"
    ensure_certificate(elsewhere, "callers.example", datetime.datetime.now(datetime.UTC))
    shutil.copyfile(elsewhere / "ca.crt", workspace.stacks / "callers.crt")
    (folder / "Pulumi.yaml").touch()
    return workspace


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@dataclass
class Serving:
    """A gateway that is being served in this process's own threads."""

    workspace: Workspace
    folders: Folders
    plan: Plan
    output: Path

    @property
    def printed(self) -> str:
        return self.output.read_text("utf-8")

    @property
    def port(self) -> int:
        port: int = json.loads((self.folders.root / "ports.json").read_text())["gateway"]
        return port

    def ask(self, model: str, *, tenant: str = "search", **fields: Any) -> tuple[int, str]:
        """Status and body, by the curl that people are told to use."""
        host, port = self.plan.gateway.hostname, self.port
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
        authority = self.workspace.certificates(NAME) / "ca.crt"
        shown = self.folders.caller
        done = subprocess.run(
            [
                *("curl", "--silent", "--max-time", "20", "--write-out", "\n%{http_code}"),
                *("--resolve", f"{host}:{port}:{LOOPBACK}", "--cacert", str(authority)),
                *("--cert", str(shown / "tls.crt"), "--key", str(shown / "tls.key")),
                *("--header", f"@{self.folders.key(tenant)}"),
                *("--header", "content-type: application/json", "--data", json.dumps(body)),
                f"https://{host}:{port}{CHAT}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    def content(self, model: str, **fields: Any) -> str:
        status, text = self.ask(model, **fields)
        assert status == 200, text
        content: str = json.loads(text)["choices"][0]["message"]["content"]
        return content

    def switch(self, running: bool, *names: str) -> None:
        for name in names:
            set_running(self.folders, NAME, name, running=running)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    workspace = workspace_in(tmp_path_factory.mktemp("serve"))
    folders, output = folders_of(workspace, NAME), workspace.root / "output"
    over, failures = threading.Event(), []

    def run() -> None:
        with output.open("w", encoding="utf-8") as file:
            try:
                serve(workspace, NAME, Console(file=file, width=200), over)
            except BaseException as error:
                failures.append(error)
                raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: folders.status.exists() or bool(failures), 120)
        yield Serving(workspace, folders, plan_environment(workspace, NAME), output)
    finally:
        over.set()
        thread.join(60)
    assert failures == []
    assert left_over(folders) == []


def left_over(folders: Folders) -> list[int]:
    paths = [str(path) for path in (folders.root / "bin").iterdir()]
    return [pid for pid, _ in started_by(paths)]


pytestmark = pytest.mark.envoy


def test_what_runs_is_shown_with_a_curl_that_streams_an_answer(serving: Serving) -> None:
    until(lambda: "Ctrl-C" in serving.printed)
    for part in parts_of(serving.folders, NAME):
        assert part.name in serving.printed
        assert part.state == "runs"
    start = serving.printed.index("curl --no-buffer")
    command = serving.printed[start : serving.printed.index("\n\n", start)]
    done = subprocess.run(
        [BASH, "-c", command], capture_output=True, text=True, check=True, timeout=30
    )
    events = [line for line in done.stdout.splitlines() if line.startswith("data: ")]
    assert len(events) > 10
    assert events[-1] == "data: [DONE]"


def test_a_caller_without_the_certificate_that_production_asks_for_is_refused(
    serving: Serving,
) -> None:
    """The printed curl shows one that this machine's own authority signed; nobody else has one."""
    context = ssl.create_default_context(cafile=serving.workspace.certificates(NAME) / "ca.crt")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        first_byte(serving.port, context)
    elsewhere = serving.workspace.root / "elsewhere"
    context.load_cert_chain(elsewhere / "tls.crt", elsewhere / "tls.key")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        first_byte(serving.port, context)
    context.load_cert_chain(serving.folders.caller / "tls.crt", serving.folders.caller / "tls.key")
    assert first_byte(serving.port, context) == b"H"
    for name in ("ca.key", "tls.key"):
        assert (serving.folders.caller / name).stat().st_mode & 0o077 == 0


def first_byte(port: int, context: ssl.SSLContext) -> bytes:
    plain = socket.create_connection((LOOPBACK, port), 10)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return connection.recv(1)


def test_no_key_is_printed_nor_given_as_an_argument(serving: Serving) -> None:
    keys = [file.read_text().split()[-1] for file in (serving.folders.root / "keys").iterdir()]
    assert len(set(keys)) == len(serving.plan.gateway.tenants)
    paths = [str(path) for path in (serving.folders.root / "bin").iterdir()]
    arguments = [Path(f"/proc/{pid}/cmdline").read_text() for pid, _ in started_by(paths)]
    for key in keys:
        assert key not in serving.printed
        assert not any(key in each for each in arguments)
    for file in (serving.folders.root / "keys").iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_every_process_listens_on_loopback_only(serving: Serving) -> None:
    ports = json.loads((serving.folders.root / "ports.json").read_text())
    listening = listening_addresses()
    for name, port in ports.items():
        assert listening.get(port) == {"127.0.0.1"}, name


def listening_addresses() -> dict[int, set[str]]:
    """Port to the addresses on which somebody listens."""
    found: dict[int, set[str]] = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state != "0A":
                continue
            address, _, port = local.partition(":")
            raw = b"".join(
                bytes.fromhex(address[start : start + 8])[::-1]
                for start in range(0, len(address), 8)
            )
            found.setdefault(int(port, 16), set()).add(socket.inet_ntop(family, raw))
    return found


def test_the_fallback_shows_when_engines_are_stopped(serving: Serving) -> None:
    own = [spec.name for spec in engine_specs(serving.plan) if spec.model == "large"]
    assert serving.content("large").startswith("large-")
    serving.switch(False, *own)
    try:
        assert serving.content("large").startswith("small-")
        assert f"{own[0]} stopped; start it again with" in serving.printed
        states = {part.name: part.state for part in parts_of(serving.folders, NAME)}
        assert states[own[0]] == "stopped"
    finally:
        serving.switch(True, *own)
    until(lambda: serving.content("large").startswith("large-"))


def test_an_engine_that_dies_is_told_of_and_can_be_started_again(serving: Serving) -> None:
    part = find(parts_of(serving.folders, NAME), "large-0")
    assert part.pid is not None
    os.kill(part.pid, signal.SIGKILL)
    until(lambda: "large-0 ended with code -9; start it again with" in serving.printed)
    serving.switch(True, "large-0")
    assert find(parts_of(serving.folders, NAME), "large-0").pid not in (None, part.pid)


def test_an_engine_that_cannot_start_is_not_said_to_run(serving: Serving) -> None:
    """Somebody has taken its port meanwhile."""
    ports = json.loads((serving.folders.root / "ports.json").read_text())
    serving.switch(False, "small-0")
    with socket.create_server((LOOPBACK, ports["small-0"])):
        with pytest.raises(OperationError, match=r"small-0: could not be started; read .*small-0"):
            serving.switch(True, "small-0")
        assert find(parts_of(serving.folders, NAME), "small-0").state == "stopped"
    serving.switch(True, "small-0")
    assert find(parts_of(serving.folders, NAME), "small-0").state == "runs"


def test_an_engine_behaves_as_it_is_set_to(serving: Serving) -> None:
    part = find(parts_of(serving.folders, NAME), "small-0")
    assert change_engine(part, ["output_tokens=3", "fault=none"])["output_tokens"] == 3
    with pytest.raises(ConfigError, match="small-0: speed: no such setting"):
        change_engine(part, ["speed=3"])
    with pytest.raises(ConfigError, match=r"setting: speed has no value; write name=value"):
        change_engine(part, ["speed"])
    with pytest.raises(ConfigError, match="gateway is no engine"):
        change_engine(find(parts_of(serving.folders, NAME), "gateway"), ["healthy=false"])


def test_a_wrong_name_is_answered_with_those_that_there_are(serving: Serving) -> None:
    with pytest.raises(ConfigError, match="large-9 is none of store, rate-limit, small-0"):
        set_running(serving.folders, NAME, "large-9", running=False)
    with pytest.raises(ConfigError, match="ends with the command that serves it"):
        set_running(serving.folders, NAME, "gateway", running=False)


def test_a_budget_holds(serving: Serving) -> None:
    statuses = [serving.ask("small", tenant="poor", max_tokens=4)[0] for _ in range(5)]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    # The count is in the store that all gateways share, not only in this Envoy's memory.
    port = json.loads((serving.folders.root / "ports.json").read_text())["store"]
    with socket.create_connection((LOOPBACK, port), timeout=5) as store:
        store.sendall(b"KEYS *\r\n")
        assert b"tenant_poor_budget_requests" in store.recv(65_536)


def test_a_second_command_is_told_that_one_serves_already(serving: Serving) -> None:
    with pytest.raises(OperationError, match="another command does so already"):
        serve(serving.workspace, NAME, Console(stderr=True), threading.Event())
    assert is_served(serving.folders)


# --- Decided without running anything ------------------------------------------------------------


def test_every_replica_and_every_managed_api_has_an_engine_and_ports(tmp_path: Path) -> None:
    plan = plan_environment(workspace_in(tmp_path), NAME)
    names = [spec.name for spec in engine_specs(plan)]
    assert names == ["small-0", "small-1", "large-0", "large-1", "api-elsewhere"]
    assert set(names) < set(port_names(plan))
    ports = {name: 10_000 + index for index, name in enumerate(port_names(plan))}
    here = substitution(plan, ports).addresses
    large = next(each for each in plan.gateway.models if each.model == "large")
    assert here[large.host, large.port] == (
        (LOOPBACK, ports["large-0"]),
        (LOOPBACK, ports["large-1"]),
    )
    assert here["api.example.com", 443] == ((LOOPBACK, ports["api-elsewhere"]),)
    changed = local_plan(plan.gateway, ports)
    assert changed.tls_port == ports["gateway"]
    assert changed.routes == plan.gateway.routes


def test_looking_at_a_gateway_that_nobody_serves_says_how_to_serve_it(tmp_path: Path) -> None:
    folders = folders_of(Workspace(tmp_path), "quiet")
    with pytest.raises(OperationError, match="run `tokenworks gateway serve quiet` in another"):
        parts_of(folders, "quiet")


def test_ctrl_c_ends_everything_and_a_kill_is_cleaned_up_by_the_next_run(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    folders = folders_of(workspace, NAME)
    command = [sys.executable, "-m", "tokenworks.cli", "gateway", "serve", NAME]
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT)}

    def run() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
        )
        until(folders.status.exists, 60)
        return process

    try:
        killed = run()
        killed.kill()
        killed.communicate()
        assert len(left_over(folders)) == 8
        folders.status.unlink()
        process = run()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "gateway of an earlier run ended" in said
        assert left_over(folders) == []
        assert not folders.status.exists()
    finally:
        Supervisor(folders.root).clear()
