"""Authorities of callers' certificates beside an environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tokenworks.environment.client_ca import read_client_ca
from tokenworks.errors import ConfigError

CALLERS = Path(__file__).parents[1] / "cases" / "environments" / "good" / "keys" / "callers.pem"


def test_what_stands_between_certificates_is_left_out(tmp_path: Path) -> None:
    one = CALLERS.read_text("utf-8")
    (tmp_path / "two.pem").write_text(f"Callers of 2026\n{one}\nand again\n{one}", "utf-8")
    assert read_client_ca(tmp_path / "two.pem") == one + one


def test_a_private_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / "both.pem").write_bytes(CALLERS.read_bytes() + key)
    with pytest.raises(ConfigError) as refused:
        read_client_ca(tmp_path / "both.pem")
    assert "holds a private key" in str(refused.value)
    assert key.decode().splitlines()[1] not in str(refused.value)
