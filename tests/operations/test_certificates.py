"""The local CA: what clients trust stays, what expires is renewed, nobody else reads keys."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tokenworks.operations.certificates import CERTIFICATE_DAYS, ensure_certificate

NOW = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)
NAME = "inference.local"


def load(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / name).read_bytes())


def verify(folder: Path, hostname: str, now: datetime.datetime) -> None:
    store = Store([load(folder, "ca.crt")])
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(hostname))
    verifier.verify(load(folder, "tls.crt"), [])


def test_a_client_that_trusts_the_ca_accepts_the_certificate(tmp_path: Path) -> None:
    assert ensure_certificate(tmp_path, NAME, NOW)
    verify(tmp_path, NAME, NOW)
    verify(tmp_path, "localhost", NOW)


def test_a_client_refuses_it_for_another_name(tmp_path: Path) -> None:
    ensure_certificate(tmp_path, NAME, NOW)
    with pytest.raises(VerificationError):
        verify(tmp_path, "other.local", NOW)


def test_a_second_time_changes_no_byte(tmp_path: Path) -> None:
    ensure_certificate(tmp_path, NAME, NOW)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert not ensure_certificate(tmp_path, NAME, NOW + datetime.timedelta(days=100))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("hostname", [NAME, "renamed.local"])
def test_a_new_certificate_is_signed_by_the_ca_that_clients_already_trust(
    tmp_path: Path, hostname: str
) -> None:
    ensure_certificate(tmp_path, NAME, NOW)
    authority = (tmp_path / "ca.crt").read_bytes()
    later = NOW + datetime.timedelta(days=CERTIFICATE_DAYS - 10)
    assert ensure_certificate(tmp_path, hostname, later)
    assert (tmp_path / "ca.crt").read_bytes() == authority
    verify(tmp_path, hostname, later)


def test_a_broken_key_is_replaced(tmp_path: Path) -> None:
    ensure_certificate(tmp_path, NAME, NOW)
    (tmp_path / "tls.key").write_text("not a key")
    assert ensure_certificate(tmp_path, NAME, NOW)
    verify(tmp_path, NAME, NOW)


def test_a_key_of_another_certificate_is_replaced(tmp_path: Path) -> None:
    ensure_certificate(tmp_path, NAME, NOW)
    (tmp_path / "tls.key").write_bytes((tmp_path / "ca.key").read_bytes())
    assert ensure_certificate(tmp_path, NAME, NOW)


def test_nobody_else_can_read_the_keys(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    ensure_certificate(folder, NAME, NOW)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
