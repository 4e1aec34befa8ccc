"""A token goes to the source and to nobody else, over TLS only, and is never told."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.weights.source_server import Fault, SourceServer, serving
from tests.weights.tool import Volume, made_up
from tokenworks.operations.certificates import ensure_certificate

LARGE = "model-00001-of-00002.safetensors"
TOKEN = "hf_made-up-for-this-test"  # noqa: S105


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path, made_up(1, large=200_000))


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    folder.mkdir()
    ensure_certificate(folder, "localhost", datetime.datetime.now(datetime.UTC))
    return folder


@pytest.fixture
def server(volume: Volume, certificates: Path) -> Iterator[SourceServer]:
    with serving(volume.files, context(certificates)) as source:
        yield source


def context(certificates: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    return made


def https(server: SourceServer, certificates: Path, token: str = TOKEN) -> dict[str, Any]:
    (certificates / "token").write_text(f"{token}\n")
    return {
        "url": named(server),
        "ca_file": str(certificates / "ca.crt"),
        "token_file": str(certificates / "token"),
        "stall_seconds": 5,
    }


def named(server: SourceServer) -> str:
    return server.url.replace("127.0.0.1", "localhost")


def tokens(server: SourceServer) -> set[str | None]:
    return {one.headers.get("Authorization") for one in server.asked}


def test_the_token_reaches_the_source(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    done = volume.run(https(server, certificates))
    assert done.returncode == 0, done.stderr
    assert volume.state() == volume.files
    assert tokens(server) == {f"Bearer {TOKEN}"}


def test_the_token_is_not_sent_on_to_another_server(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    with serving(volume.files, context(certificates)) as other:
        away = Fault(status=302, headers={"Location": named(other) + LARGE})
        server.faults[LARGE] = [away]
        assert volume.run(https(server, certificates)).returncode == 0
        assert tokens(other) == {None}
        assert other.ranges_of(LARGE) == [None]
    assert volume.state() == volume.files


def test_the_token_does_not_come_back_after_a_detour(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    with serving({}, context(certificates)) as other:
        server.faults[LARGE] = [Fault(status=302, headers={"Location": f"{named(other)}x"})]
        back = Fault(status=302, headers={"Location": named(server) + LARGE})
        other.faults["x"] = [back]
        assert volume.run(https(server, certificates)).returncode == 0
    given = [one.headers.get("Authorization") for one in server.asked if one.path == f"/{LARGE}"]
    assert given == [f"Bearer {TOKEN}", None]


def test_the_token_follows_a_renamed_repository_on_the_same_server(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    server.files["renamed"] = volume.files[LARGE]
    server.faults[LARGE] = [Fault(status=307, headers={"Location": "/renamed"})]
    assert volume.run(https(server, certificates)).returncode == 0
    assert tokens(server) == {f"Bearer {TOKEN}"}


def test_nothing_is_fetched_where_a_redirect_leads_out_of_tls(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    with serving(volume.files) as plain:
        server.faults[LARGE] = [Fault(status=302, headers={"Location": plain.url + LARGE})]
        done = volume.run(https(server, certificates))
        assert plain.asked == []
    assert done.returncode == 3
    assert "redirects to" in done.stderr
    assert "without TLS" in done.stderr
    assert volume.state() is None


def test_a_token_is_not_sent_without_tls(volume: Volume, certificates: Path) -> None:
    with serving(volume.files) as plain:
        done = volume.run(https(plain, certificates))
        assert plain.asked == []
    assert done.returncode == 3
    assert "a token is never sent without TLS" in done.stderr


def test_a_server_that_nobody_vouches_for_is_refused(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    source = https(server, certificates)
    del source["ca_file"]
    done = volume.run(source)
    assert done.returncode == 3
    assert "the server cannot be trusted" in done.stderr
    assert server.asked == []


@pytest.mark.parametrize("fault", [Fault(status=401), Fault(status=500), Fault(cut_after=10)])
def test_the_token_is_never_told(
    volume: Volume, server: SourceServer, certificates: Path, fault: Fault
) -> None:
    server.every = fault
    done = volume.run(https(server, certificates))
    assert done.returncode in (1, 3)
    assert TOKEN not in done.stdout + done.stderr + " ".join(done.args)


def test_a_refusal_says_what_the_token_lacks(
    volume: Volume, server: SourceServer, certificates: Path
) -> None:
    server.faults[LARGE] = [Fault(status=403)]
    done = volume.run(https(server, certificates))
    assert "check that it may read this model, and that its licence is accepted" in done.stderr
