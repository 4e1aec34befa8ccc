"""A certificate authority of one environment on one machine, and the gateway's certificate."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tokenworks.files import private_folder, write_whole

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
"""The longest that common clients accept; support.apple.com/102028."""
RENEW_BEFORE_DAYS = 30
BACKDATE = datetime.timedelta(minutes=5)
"""Clocks of clients may be behind."""


@dataclass(frozen=True, kw_only=True)
class _Pair:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def ensure_certificate(
    folder: Path,
    hostname: str,
    now: datetime.datetime,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> bool:
    """A CA (``ca.crt``) and a certificate it signed (``tls.crt``, ``tls.key``) in ``folder``.

    What is there and still good is kept, so that callers go on trusting it; returns whether the
    certificate is new. ``usage`` says whether a server or a client shows it. The CA's key stays in
    the folder and goes nowhere else.
    """
    authority = _read(folder, "ca") or _write(folder, "ca", _authority(hostname, now))
    current = _read(folder, "tls")
    if current and _serves(current.certificate, authority.certificate, hostname, now):
        return False
    _write(folder, "tls", _certificate(authority, hostname, now, usage))
    return True


def _serves(
    certificate: x509.Certificate,
    authority: x509.Certificate,
    hostname: str,
    now: datetime.datetime,
) -> bool:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    renew_at = certificate.not_valid_after_utc - datetime.timedelta(days=RENEW_BEFORE_DAYS)
    return (
        hostname in names.get_values_for_type(x509.DNSName)
        and certificate.issuer == authority.subject
        and now < renew_at
    )


def _authority(hostname: str, now: datetime.datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"tokenworks local CA {hostname}"[:64])]
    )
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Pair(key=key, certificate=certificate)


def _certificate(
    authority: _Pair, hostname: str, now: datetime.datetime, usage: x509.ObjectIdentifier
) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname[:64])])
    names: list[x509.GeneralName] = [
        x509.DNSName(hostname),
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    certificate = (
        _builder(name, authority.certificate.subject, key, now, CERTIFICATE_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )
    return _Pair(key=key, certificate=certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _read(folder: Path, name: str) -> _Pair | None:
    """The pair of files, or None when one is missing or broken, so that it is made anew."""
    try:
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    belongs = certificate.public_key() == key.public_key()
    return _Pair(key=key, certificate=certificate) if belongs else None


def _write(folder: Path, name: str, pair: _Pair) -> _Pair:
    encoding = serialization.Encoding.PEM
    key = pair.key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    private_folder(folder)
    write_whole(folder / f"{name}.key", key.decode())
    write_whole(folder / f"{name}.crt", pair.certificate.public_bytes(encoding).decode())
    return pair
