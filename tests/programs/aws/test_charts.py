"""Charts are archives that were held against their digests, whoever serves them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tokenworks.errors import OperationError
from tokenworks.plan.aws.types import ChartPlan
from tokenworks.platforms.charts import chart_archive, chart_path
from tokenworks.workspace import Workspace

ARCHIVE = b"an archive"
RIGHT = f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}"


class Repository(ThreadingHTTPServer):
    """Serves one archive, and counts how often it was asked for."""

    served = ARCHIVE
    asked = 0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Repository)
        self.server.asked += 1
        self.send_response(200 if self.path.endswith(".tgz") else 404)
        self.end_headers()
        self.wfile.write(self.server.served)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def repository() -> Iterator[Repository]:
    server = Repository(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def chart(repository: Repository, digest: str = RIGHT, file: str = "c-1.2.3.tgz") -> ChartPlan:
    return ChartPlan(
        name="c",
        chart=f"http://127.0.0.1:{repository.server_address[1]}/{file}",
        version="1.2.3",
        digest=digest,
        namespace="kube-system",
        values={},
        images=(),
    )


def test_an_archive_is_fetched_once_and_lies_where_the_program_names_it(
    repository: Repository, tmp_path: Path
) -> None:
    plan = chart(repository)
    for _ in range(2):
        assert chart_archive(Workspace(tmp_path), plan) == chart_path(plan)
    assert (tmp_path / chart_path(plan)).read_bytes() == ARCHIVE
    assert repository.asked == 1


def test_another_archive_than_the_plans_is_never_kept(
    repository: Repository, tmp_path: Path
) -> None:
    repository.served = b"something else"
    with pytest.raises(OperationError, match="and not sha256:"):
        chart_archive(Workspace(tmp_path), chart(repository))
    assert not list(tmp_path.rglob("*.tgz"))


def test_an_archive_that_was_changed_on_this_machine_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    plan = chart(repository)
    chart_archive(Workspace(tmp_path), plan)
    (tmp_path / chart_path(plan)).write_bytes(b"changed")
    with pytest.raises(OperationError, match="delete the file"):
        chart_archive(Workspace(tmp_path), plan)


def test_what_cannot_be_fetched_says_where_it_may_be_put(
    repository: Repository, tmp_path: Path
) -> None:
    plan = chart(repository, file="nothing")
    with pytest.raises(OperationError, match=r"put the archive at \./\.tokenworks/charts/"):
        chart_archive(Workspace(tmp_path), plan)


@pytest.mark.parametrize("source", ["file:///etc/passwd", "ftp://example.org/c.tgz", "c"])
def test_what_is_not_https_is_not_fetched(
    repository: Repository, tmp_path: Path, source: str
) -> None:
    from dataclasses import replace

    with pytest.raises(OperationError, match="name it by https"):
        chart_archive(Workspace(tmp_path), replace(chart(repository), chart=source))


def test_another_digest_is_another_file(repository: Repository) -> None:
    assert chart_path(chart(repository)) != chart_path(chart(repository, f"sha256:{'b' * 64}"))
