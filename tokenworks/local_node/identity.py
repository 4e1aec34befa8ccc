"""Who the node's programs are to the API server: certificates, each with the rights of one task."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = datetime.timedelta(days=365)
_EARLIER: Final = datetime.timedelta(minutes=5)
"""Clocks differ a little."""


@dataclass(frozen=True, kw_only=True)
class User:
    """A user of the API server; ``groups`` carry the rights that Kubernetes knows by itself."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


def sign(user: User, pki: Path, now: datetime.datetime) -> Credentials:
    """Credentials that the cluster's authority in ``pki`` vouches for."""
    with warnings.catch_warnings():
        # kwokctl gives its authority the serial number 0, of which cryptography complains.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), password=None)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_subject(user))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]  # kwokctl makes an RSA key
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Credentials(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=private.decode(),
    )


def _subject(user: User) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in user.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user.name)])
