"""Authorities that sign the certificates of callers."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tokenworks.errors import ConfigError, Problem


def read_client_ca(file: Path) -> str:
    """The certificates of a PEM file, one after another, without anything between them.

    Raises:
        ConfigError: there is no such file, it is no PEM of certificates, it holds a private key, or
            one of the certificates is no authority's.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise _refuse("does not exist", "save the authority's certificate there") from None
    except OSError as error:
        raise _refuse(f"cannot be read ({error.strerror})", "correct its permissions") from error
    if b"PRIVATE KEY-----" in data:
        raise _refuse("holds a private key", "save the certificate alone, and replace that key")
    try:
        certificates = x509.load_pem_x509_certificates(data)
    except ValueError:
        raise _refuse("holds no certificate in PEM", "save the authority's there") from None
    for number, certificate in enumerate(certificates, start=1):
        if not _is_authority(certificate):
            name = certificate.subject.rfc4514_string()
            reason = f"holds a certificate of no authority (number {number}, {name})"
            raise _refuse(reason, "give the authorities that sign, not what they signed")
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return extension.value.ca


def _refuse(reason: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key="", reason=reason, remedy=remedy)])
