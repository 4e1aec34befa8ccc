"""What a host lock may hold: it is committed, kept in state, and written readable on every host."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.hosts import repository, samples
from tests.hosts.repository import Signer
from tokenworks.errors import ConfigError
from tokenworks.hosts.lock import RepositoryLock
from tokenworks.hosts.lock_file import lock_text, read_host_lock
from tokenworks.hosts.request import LockRequest

SECRET = "hunter2-of-the-mirror"  # noqa: S105  made up, and must not be kept


def at(uri: str) -> RepositoryLock:
    fields = samples.lock().repositories[0].model_dump(mode="json")
    return RepositoryLock.model_validate(fields | {"uri": uri})


@pytest.mark.parametrize("uri", [f"https://user:{SECRET}@mirror.example/x", "http://user@mirror/x"])
def test_an_address_with_a_user_or_password_is_refused(uri: str) -> None:
    with pytest.raises(ValidationError, match="must not hold a user or password; let the mirror"):
        at(uri)


@pytest.mark.parametrize("uri", ["https://mirror.example:8443/a/b", "file:///srv/apt"])
def test_an_address_without_them_is_taken(uri: str) -> None:
    assert at(uri).uri == uri


def test_neither_a_request_nor_a_lock_may_hold_one(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    uri = f"https://user:{SECRET}@mirror.example/x"
    asked = repository.request(archives, signer)
    asked["repositories"][0]["uri"] = uri
    with pytest.raises(ValidationError, match="must not hold a user or password"):
        LockRequest.model_validate(asked)
    file = tmp_path / "lock.yaml"
    file.write_text(lock_text(samples.lock()).replace("https://packages.example.org/ubuntu", uri))
    with pytest.raises(ConfigError, match=r"lock\.yaml:[0-9]+: repositories\[0\]\.uri") as refused:
        read_host_lock(file)
    assert SECRET not in str(refused.value)
