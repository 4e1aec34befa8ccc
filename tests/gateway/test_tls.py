"""TLS ends here: versions, protocols and certificates."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from dataclasses import dataclass

import pytest
from cryptography import x509

from .harness import Gateway, certificate, until
from .simulated import LOOPBACK

pytestmark = pytest.mark.envoy

ALERT, HANDSHAKE = 0x15, 0x16
PROTOCOL_VERSION = 70


def client_hello(version: int) -> bytes:
    """A ClientHello whose highest version is 0x0301 (TLS 1.0) to 0x0303 (TLS 1.2)."""

    def extension(kind: int, *values: int) -> bytes:
        data = b"".join(struct.pack(">H", value) for value in values)
        return struct.pack(">HHH", kind, len(data) + 2, len(data)) + data

    ciphers = struct.pack(">4H", 0xC009, 0xC00A, 0xC02B, 0xC02F)
    extensions = extension(10, 23, 24) + extension(13, 0x0403, 0x0804)
    hello = struct.pack(">H", version) + os.urandom(32) + b"\0"
    hello += struct.pack(">H", len(ciphers)) + ciphers + b"\x01\0"
    hello += struct.pack(">H", len(extensions)) + extensions
    handshake = b"\x01" + struct.pack(">I", len(hello))[1:] + hello
    return struct.pack(">BHH", HANDSHAKE, 0x0301, len(handshake)) + handshake


def first_answer(port: int, version: int) -> tuple[int, int]:
    """The kind of the first record and its last byte."""
    with socket.create_connection((LOOPBACK, port), 10) as connection:
        connection.sendall(client_hello(version))
        record = connection.recv(7)
        return record[0], record[6]


@pytest.mark.parametrize("version", [0x0301, 0x0302], ids=["TLS 1.0", "TLS 1.1"])
def test_old_versions_of_tls_are_refused(gateway: Gateway, version: int) -> None:
    assert first_answer(gateway.plan.tls_port, version) == (ALERT, PROTOCOL_VERSION)


def test_tls_1_2_and_1_3_are_spoken(gateway: Gateway) -> None:
    assert first_answer(gateway.plan.tls_port, 0x0303)[0] == HANDSHAKE
    assert handshake(gateway).version == "TLSv1.3"


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_both_versions_of_http_are_offered(gateway: Gateway, protocol: str) -> None:
    assert handshake(gateway, protocol).protocol == protocol


def test_plain_http_is_not_spoken(gateway: Gateway) -> None:
    with socket.create_connection((LOOPBACK, gateway.plan.tls_port), 10) as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"HTTP" not in connection.recv(100)


@pytest.mark.parametrize("beside", [{}, {"ca.crt": "of the issuer"}], ids=["given", "cert-manager"])
def test_a_renewed_certificate_is_shown_at_once_and_no_stream_is_cut(
    gateway: Gateway, beside: dict[str, str]
) -> None:
    """Key and certificate change together; cert-manager keeps its issuer's beside them."""
    renewed = {**certificate(), **beside}
    serial = x509.load_pem_x509_certificate(renewed["tls.crt"].encode()).serial_number
    body = {"model": "alpha", "simulate": {"events": 20, "gap_seconds": 0.1}}
    with gateway.streaming(body) as stream:
        assert handshake(gateway).serial != serial
        gateway.tls.publish(renewed)
        until(lambda: handshake(gateway).serial == serial, what="the renewed certificate")
    gateway.chain = renewed["tls.crt"]
    assert len(stream.events) == 21
    assert not stream.broken


@dataclass(frozen=True)
class Handshake:
    """What a finished handshake agreed on, and the certificate's serial number."""

    version: str | None
    protocol: str | None
    serial: int


def handshake(gateway: Gateway, protocol: str = "h2") -> Handshake:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    plain = socket.create_connection((LOOPBACK, gateway.plan.tls_port), 10)
    with contextlib.closing(context.wrap_socket(plain)) as connection:
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        serial = x509.load_der_x509_certificate(shown).serial_number
        return Handshake(connection.version(), connection.selected_alpn_protocol(), serial)
