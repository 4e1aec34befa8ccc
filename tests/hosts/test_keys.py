"""Fingerprints of real keys, computed before anything trusts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.repository import Signer
from tests.hosts.samples import lock
from tokenworks.errors import ConfigError
from tokenworks.hosts.keys import check_keys, fingerprints
from tokenworks.hosts.lock import HostLock


def locked(fingerprint: str) -> HostLock:
    sample = lock()
    repository = sample.repositories[0].model_copy(update={"key_fingerprint": fingerprint})
    return sample.model_copy(update={"repositories": (repository,)})


def test_the_fingerprint_is_the_one_that_gnupg_prints(signer: Signer) -> None:
    assert fingerprints(signer.armoured.decode()) == (signer.fingerprint,)
    check_keys(locked(signer.fingerprint), {"mirror.asc": signer.armoured.decode()})


def test_another_key_is_refused_with_both_fingerprints(signer: Signer) -> None:
    with pytest.raises(ConfigError, match=f"holds {signer.fingerprint}, locked is {'B' * 40}"):
        check_keys(lock(), {"mirror.asc": signer.armoured.decode()})


def test_a_missing_key_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"repositories\[0\].key_file: mirror.asc is not there"):
        check_keys(lock(), {})


@pytest.mark.parametrize("text", ["", "<html>403 Forbidden</html>", "-----BEGIN PGP MESSAGE-----"])
def test_a_proxys_error_page_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="is no armoured public key"):
        fingerprints(text)


@given(st.integers(min_value=1), st.integers(min_value=0))
def test_a_damaged_key_is_refused_or_has_a_fingerprint_and_never_ends_otherwise(
    signer: Signer, line: int, cut: int
) -> None:
    lines = signer.armoured.decode().strip().splitlines()
    body = range(lines.index("") + 1, len(lines) - 2)
    broken = list(lines)
    chosen = body[line % len(body)]
    broken[chosen] = broken[chosen][: cut % len(broken[chosen])]
    try:
        found = fingerprints("\n".join(broken))
    except ValueError:
        return
    assert all(len(one) == 40 and set(one) <= set("0123456789ABCDEF") for one in found)
