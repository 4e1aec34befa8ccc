"""Certificates of callers: who has to show one, whose are good, and what is made of them."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tokenworks.plan.gateway_types import ClientCertificates
from tokenworks.render_gateway import CLIENT_CA_FILE

from .engine import SimulatedEngine
from .harness import KEY, Gateway, Volume, decided, engines_of, plan_for, running, until
from .held import HeldEngine, held_streams
from .simulated import CHAT

pytestmark = pytest.mark.envoy

FORWARDED = "x-forwarded-client-cert"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Authority:
    """Signs callers' certificates."""

    name: str
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def signed(self, subject: str, key: ec.EllipticCurvePublicKey, *, authority: bool) -> str:
        now = datetime.datetime.now(datetime.UTC)
        found = (
            x509.CertificateBuilder(
                _name(self.name), _name(subject), key, x509.random_serial_number()
            )
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        return found.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def pem(self) -> str:
        return self.signed(self.name, self.key.public_key(), authority=True)

    def caller(self, file: Path) -> Path:
        """A new caller's key and certificate in one file; the file's name is the caller's."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        chain = self.signed(file.stem, key.public_key(), authority=False)
        file.write_text(private.decode() + chain, encoding="utf-8")
        return file


def asked(gateway: Gateway, shown: Path | None, **headers: str) -> int | None:
    """The status of a request with this certificate; None where the handshake was refused."""
    gateway.shown = shown
    try:
        return gateway.post({"model": "alpha"}, headers=headers).status
    except (ssl.SSLError, ConnectionError):
        return None


def counted(gateway: Gateway, reason: str, times: int) -> None:
    """Envoy counts a refused handshake just after the caller has learnt of it."""
    name = f"envoy_listener_ssl_fail_verify_{reason}"
    until(lambda: gateway.metric(name) == times, what=f"{name} is {times}")


@pytest.fixture(scope="module")
def ours() -> Authority:
    return Authority("ours")


@pytest.fixture(scope="module")
def held() -> Iterator[HeldEngine]:
    with HeldEngine() as engine:
        yield engine


@pytest.fixture(params=[False, True], ids=["optional", "required"])
def gateway(
    request: pytest.FixtureRequest, ours: Authority, engine: SimulatedEngine, tmp_path: Path
) -> Iterator[Gateway]:
    engine.received.clear()
    plan = plan_for(
        [engines_of("alpha", engine.port)],
        client_certificates=ClientCertificates(ca=ours.pem, required=request.param),
    )
    with running(tmp_path / "gateway", plan) as found:
        yield found


def required(gateway: Gateway) -> bool:
    assert gateway.plan.client_certificates
    return gateway.plan.client_certificates.required


def test_a_certificate_is_needed_only_where_it_was_asked_for(
    gateway: Gateway, ours: Authority, engine: SimulatedEngine, tmp_path: Path
) -> None:
    assert asked(gateway, None) == (None if required(gateway) else 200)
    counted(gateway, "no_cert", int(required(gateway)))
    engine.received.clear()
    assert asked(gateway, ours.caller(tmp_path / "search.pem")) == 200
    assert len(engine.received) == 1


def test_a_certificate_of_another_authority_is_never_good(
    gateway: Gateway, engine: SimulatedEngine, tmp_path: Path
) -> None:
    """Also one whose authority has the same name."""
    for name in ("theirs", "ours"):
        assert asked(gateway, Authority(name).caller(tmp_path / "search.pem")) is None
    counted(gateway, "error", 2)
    assert engine.received == []


def test_a_certificate_replaces_no_key(
    gateway: Gateway, ours: Authority, engine: SimulatedEngine, tmp_path: Path
) -> None:
    gateway.shown = ours.caller(tmp_path / "search.pem")
    assert gateway.post({"model": "alpha"}, key="nobody").status == 401
    assert engine.received == []


def test_engines_and_the_log_learn_whose_it_was_from_the_gateway_alone(
    gateway: Gateway, ours: Authority, engine: SimulatedEngine, tmp_path: Path
) -> None:
    spoofed = {FORWARDED: 'Subject="CN=director"'}
    assert asked(gateway, ours.caller(tmp_path / "search.pem"), **spoofed) == 200
    assert 'Subject="CN=search"' in engine.received[-1].headers[FORWARDED]
    assert "director" not in engine.received[-1].headers[FORWARDED]
    wanted = ["CN=search"]
    if not required(gateway):
        assert asked(gateway, None, **spoofed) == 200
        assert FORWARDED not in engine.received[-1].headers
        wanted.append("")
    until(lambda: len(gateway.access_log()) == len(wanted), what="the log")
    logged = [line["client_certificate"] or "" for line in gateway.access_log()]
    assert [text if text != "-" else "" for text in logged] == wanted


def test_probes_need_no_certificate(gateway: Gateway) -> None:
    assert gateway.plain("GET", "/ready").status == 200


def test_an_authority_is_replaced_without_cutting_a_stream(
    ours: Authority, held: HeldEngine, tmp_path: Path
) -> None:
    """Both are trusted for a while, then the new one alone."""
    new = Authority("new")
    old_caller, new_caller = (one.caller(tmp_path / f"of-{one.name}.pem") for one in (ours, new))
    plan = plan_for(
        [engines_of("alpha", held.port)],
        client_certificates=ClientCertificates(ca=ours.pem, required=True),
        max_request_seconds=decided(60),
        stream_idle_seconds=decided(60),
        drain_seconds=decided(60),
    )
    with running(tmp_path / "gateway", plan) as gateway:
        volume = Volume(Path(gateway.mounts.client_ca), generation=1)
        assert asked(gateway, new_caller) is None
        gateway.shown = old_caller
        with held_streams(gateway, held, "alpha") as streams:
            volume.publish({CLIENT_CA_FILE: ours.pem + new.pem})
            until(lambda: asked(gateway, new_caller) == 200, what="both are trusted")
            assert asked(gateway, old_caller) == 200
            streams.go_on("an authority was added")
            volume.publish({CLIENT_CA_FILE: new.pem})
            until(lambda: asked(gateway, old_caller) is None, what="the old one is not")
            assert asked(gateway, new_caller) == 200
            streams.go_on("an authority was removed")
            streams.let_go()


def test_without_the_setting_nobody_is_asked_and_nothing_is_passed_on(
    shared_gateway: Gateway, engine: SimulatedEngine, ours: Authority, tmp_path: Path
) -> None:
    files = shared_gateway.files(shared_gateway.plan)
    assert "client_ca.yaml" not in files
    assert "client_ca" not in files["lds.yaml"]
    engine.received.clear()
    headers = {FORWARDED: 'Subject="CN=director"'}
    assert (
        shared_gateway.post({"model": "alpha"}, key=KEY, path=CHAT, headers=headers).status == 200
    )
    assert FORWARDED not in engine.received[0].headers
