"""What operators and the cluster see: probes, metrics, logs, files and the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.plan.types import Decided
from tokenworks.render_gateway import drain_command
from tokenworks.templating import render

from .engine import SimulatedEngine
from .harness import JSON, KEY, Gateway, Stream, engines_of, plan_for, refusal, running, until
from .simulated import CHAT, LOOPBACK

pytestmark = pytest.mark.envoy

BASH = shutil.which("bash") or "bash"


def test_the_probe_port_answers_probes_and_metrics(gateway: Gateway) -> None:
    assert gateway.plain("GET", "/ready").status == 200
    assert gateway.plain("GET", "/alive").status == 200
    gateway.post({"model": "beta"})
    assert 'envoy_cluster_name="beta"' in gateway.plain("GET", "/stats/prometheus").body.decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/config_dump"),
        ("GET", "/stats"),
        ("GET", "/certs"),
        ("GET", "/clusters"),
        ("POST", "/ready"),
        ("POST", "/alive"),
        ("GET", "/alive/"),
        ("POST", "/quitquitquit"),
        ("POST", "/healthcheck/fail"),
        ("POST", "/drain_listeners"),
        ("POST", "/logging?level=debug"),
        ("GET", "/ready/"),
        ("GET", "/stats/prometheus/../../config_dump"),
        ("GET", "/ready/../config_dump"),
        ("POST", CHAT),
        ("GET", "/v1/models"),
    ],
)
def test_the_probe_port_answers_nothing_else(gateway: Gateway, method: str, path: str) -> None:
    assert gateway.plain(method, path).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/config_dump"),
        ("POST", "/quitquitquit"),
        ("POST", "/logging?level=debug"),
        ("GET", "/certs"),
        ("GET", "/stats"),
        ("POST", "/drain_listeners"),
    ],
)
def test_even_inside_the_pod_the_admin_interface_tells_and_does_little(
    gateway: Gateway, method: str, path: str
) -> None:
    request = f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with socket.create_connection((LOOPBACK, gateway.plan.admin_port), 10) as connection:
        connection.sendall(request.encode())
        assert connection.recv(100).split(b" ")[1] == b"403"


def test_the_access_log_has_the_facts_but_neither_key_nor_prompt(gateway: Gateway) -> None:
    prompt, secret = "a very private prompt", "secret-in-the-query"
    done = gateway.post({"model": "alpha", "prompt": prompt}, path=f"{CHAT}?key={secret}")
    gateway.post({"model": "alpha", "prompt": prompt}, key="a-wrong-but-private-key")
    gateway.post(f'{{"model": "alpha", "prompt": "{prompt}"'.encode())
    last = gateway.post({"model": "gone", "prompt": prompt})

    def lines() -> dict[str, dict[str, object]]:
        return {str(line["request_id"]): line for line in gateway.access_log()}

    until(lambda: last.headers["x-request-id"] in lines(), what="access log")
    line = lines()[done.headers["x-request-id"]]
    assert (line["tenant"], line["model"], line["route"]) == ("search", "alpha", "model/alpha")
    assert (line["method"], line["path"], line["status"]) == ("POST", CHAT, 200)
    assert isinstance(line["first_byte_ms"], int)
    output = gateway.log.read_text() + gateway.log.with_suffix(".out").read_text()
    for private in (KEY, secret, prompt, "a-wrong-but-private-key", "private"):
        assert private not in output


def test_envoy_has_nothing_to_warn_about(gateway: Gateway) -> None:
    """No deprecated field, and nothing marked as outside Envoy's threat model."""
    text = gateway.log.read_text(encoding="utf-8")
    assert "eprecated" not in text
    assert "threat model" not in text


def test_envoy_opens_no_file_for_writing(gateway: Gateway) -> None:
    """So the container's file system can be read-only."""
    opened = Path(f"/proc/{gateway.process.pid}/fd")
    if not opened.is_dir():
        pytest.skip("files that Envoy writes were NOT tested: only /proc tells them")
    logs = {str(gateway.log), str(gateway.log.with_suffix(".out"))}
    written = {
        str(link.readlink())
        for link in opened.iterdir()
        if _is_written(gateway.process.pid, link.name) and str(link.readlink()).startswith("/")
    }
    assert written - logs - {"/dev/null"} == set()


def _is_written(pid: int, descriptor: str) -> bool:
    info = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="utf-8")
    flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def test_draining_lets_a_stream_finish_and_returns_soon_after(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    """The stop signal alone cuts every stream at once."""
    model = engines_of("alpha", engine.port, most=4)
    with running(tmp_path, plan_for([model])) as gateway:
        script = tmp_path / "drain.sh"
        script.write_text(render("gateway/drain.sh.j2", plan=gateway.plan, drain_minimum_seconds=1))
        body = {"model": "alpha", "simulate": {"events": 25, "gap_seconds": 0.1}}
        stream = Stream()
        thread = threading.Thread(target=gateway.stream, args=(body, stream))
        thread.start()
        until(lambda: len(stream.events) > 0, what="first event")
        began = time.monotonic()
        subprocess.run([BASH, str(script)], check=True, timeout=20)
        assert 2 < time.monotonic() - began < 6
        assert gateway.plain("GET", "/ready").status == 503
        gateway.process.terminate()
        thread.join(10)
    assert len(stream.events) == 26
    assert not stream.broken


def test_new_requests_are_answered_while_the_gateway_drains(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    """Load balancers go on sending until they have seen the failed probe."""
    model = engines_of("alpha", engine.port, most=4)
    with running(tmp_path, plan_for([model])) as gateway:
        _, script = drain_command(gateway.mounts)
        draining = subprocess.Popen([BASH, script])
        until(lambda: gateway.plain("GET", "/ready").status == 503, what="failed probe")
        reply = gateway.request(
            "POST", CHAT, b'{"model": "alpha"}', {**JSON, "authorization": f"Bearer {KEY}"}
        )
        draining.terminate()
        draining.wait(10)
        assert gateway.plain("GET", "/alive").status == 200
    assert reply.status == 200
    assert reply.headers["connection"] == "close"


def test_a_gateway_that_hangs_takes_connections_and_does_not_say_that_it_lives(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    """What stops it runs all the same, and is not held up."""
    model = engines_of("alpha", engine.port, most=4)
    with running(tmp_path, plan_for([model])) as gateway:
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            os.waitpid(gateway.process.pid, os.WUNTRACED)  # until all its threads have stopped
            address = (LOOPBACK, gateway.plan.readiness_port)
            with socket.create_connection(address, timeout=1) as connection:
                connection.sendall(b"GET /alive HTTP/1.1\r\nhost: x\r\n\r\n")
                with pytest.raises(TimeoutError):
                    connection.recv(1)
            script = tmp_path / "drain.sh"
            stopping = replace(gateway.plan, drain_seconds=Decided(6, "a hang is seen in less"))
            values = {"plan": stopping, "drain_minimum_seconds": 1}
            script.write_text(render("gateway/drain.sh.j2", **values))
            subprocess.run([BASH, str(script)], check=True, timeout=15)
        finally:
            gateway.process.send_signal(signal.SIGCONT)
        until(lambda: gateway.plain("GET", "/alive").status == 200, what="the answer")


def test_refusals_name_the_request_for_the_log(gateway: Gateway) -> None:
    reply = gateway.post({"model": "unknown"})
    assert refusal(reply)[0] == 404
    assert len(reply.headers["x-request-id"]) == 36
    assert reply.headers["server"] == "gateway"
