"""Which Go builds the tools, and in which environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.conftest import Pretend
from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.catalogue import MINIMUM_GO
from tokenworks.toolchain.golang import Go, find_go, get_go, judge_go
from tokenworks.toolchain.news import Progress
from tokenworks.toolchain.running import Commands
from tokenworks.toolchain.toolbox import tools_folder


@pytest.mark.parametrize(
    ("said", "good"),
    [
        ("go1.26.6\n", True),
        ("go1.27.0", True),
        ("go1.26.8 X:boringcrypto", True),
        ("go1.26.5", False),
        ("go1.22", False),
        ("go1.26rc1", False),
        ("devel go1.28-8c3f2a1 Mon", False),
        ("", False),
    ],
)
def test_a_go_counts_by_its_release(said: str, good: bool) -> None:
    assert judge_go(said)[0] is good


def test_an_older_go_is_refused_with_both_versions(
    pretend: Pretend, environ: dict[str, str]
) -> None:
    pretend("go", "echo go1.22.1")
    go, because = find_go(environ)
    assert go is None
    assert because == f"the Go on PATH is 1.22.1, older than {MINIMUM_GO}"


def test_a_go_is_asked_without_letting_it_fetch_a_newer_one(
    pretend: Pretend, environ: dict[str, str]
) -> None:
    pretend("go", 'test "$GOTOOLCHAIN" = local && echo go1.26.8')
    go, _ = find_go({**environ, "GOTOOLCHAIN": "go1.99.0+auto"})
    assert go is not None
    assert go.version == "1.26.8"


def test_a_broken_go_is_no_go(pretend: Pretend, environ: dict[str, str]) -> None:
    pretend("go", "echo cannot find GOROOT >&2; exit 2")
    go, because = find_go(environ)
    assert go is None
    assert "cannot find GOROOT" in because


def test_a_build_keeps_where_modules_come_from_and_drops_what_would_change_it() -> None:
    callers = {
        "GOPROXY": "https://proxy.example",
        "GOMODCACHE": "/modules",
        "HOME": "/h",
        "GOFLAGS": "-mod=vendor -tags=x",
        "GOOS": "windows",
        "GOEXPERIMENT": "rangefunc",
        "CGO_ENABLED": "1",
        "GOWORK": "/elsewhere/go.work",
    }
    environ = Go(Path("/go"), "1.26.8").environ(callers)
    assert {name: environ[name] for name in ("GOPROXY", "GOMODCACHE", "HOME")} == {
        "GOPROXY": "https://proxy.example",
        "GOMODCACHE": "/modules",
        "HOME": "/h",
    }
    assert environ["GOFLAGS"] == "-mod=readonly -trimpath -buildvcs=false"
    assert (environ["CGO_ENABLED"], environ["GOWORK"]) == ("0", "off")
    assert not {"GOOS", "GOEXPERIMENT"} & set(environ)


def test_without_go_and_without_a_network_the_remedy_is_named(
    cache: Cache, environ: dict[str, str]
) -> None:
    news: list[Progress] = []
    cut_off = {**environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    cut_off |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    cache.prepare()
    with pytest.raises(OperationError, match=r"install Go .* from https://go\.dev/dl/") as caught:
        get_go(cache, tools_folder(), cut_off, Commands(), news.append)
    assert str(cache.root / "logs") in str(caught.value)
    assert "there is no Go on PATH" in news[0].detail
    assert not (cache.root / "go").exists(), "nothing half installed is published"
