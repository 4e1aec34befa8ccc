"""Where builds are kept, what names them, and that only whole ones are published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.toolchain.conftest import SMALL
from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import Cache, cache_key, publish, read_sources, try_lock
from tokenworks.toolchain.catalogue import MODULES
from tokenworks.toolchain.kinds import Borrowed
from tokenworks.toolchain.toolbox import tools_folder


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"TOKENWORKS_CACHE": "/big/disk", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/big/disk"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/tokenworks"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/tokenworks"),
        ({"XDG_CACHE_HOME": "", "TOKENWORKS_CACHE": "", "HOME": "/h"}, "/h/.cache/tokenworks"),
    ],
)
def test_the_cache_is_where_the_environment_says(environ: dict[str, str], place: str) -> None:
    assert Cache.of(environ).root == Path(place)


def test_the_cache_is_in_the_users_home_even_without_the_variable() -> None:
    assert Cache.of({}).root == Path.home() / ".cache" / "tokenworks"


def test_a_cache_that_cannot_be_written_says_which_variable_moves_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperationError, match="set TOKENWORKS_CACHE"):
        Cache(tmp_path / "file" / "below").prepare()


SOURCES = {"etcd": {"go.mod": b"module a", "go.sum": b"", "main.go": b"package main"}}
KEY = cache_key(SMALL, SOURCES, "Linux", "x86_64")


def test_a_key_is_short_stable_and_twelve_hexadecimal_digits() -> None:
    assert cache_key(SMALL, SOURCES, "Linux", "x86_64") == KEY
    assert len(KEY) == 12
    assert int(KEY, 16) >= 0


@pytest.mark.parametrize(
    "key",
    [
        cache_key(SMALL, {"etcd": {**SOURCES["etcd"], "go.sum": b"x"}}, "Linux", "x86_64"),
        cache_key(SMALL, {"etcd": {**SOURCES["etcd"], "more.go": b""}}, "Linux", "x86_64"),
        cache_key(SMALL, SOURCES, "Linux", "aarch64"),
        cache_key(SMALL, SOURCES, "Darwin", "x86_64"),
        cache_key(replace(SMALL, variables={"a.B": "1"}), SOURCES, "Linux", "x86_64"),
        cache_key(replace(SMALL, version="3.7.4"), SOURCES, "Linux", "x86_64"),
        cache_key(
            replace(SMALL, ships=(Borrowed(folder="etcd", go_module="m", path="p"),)),
            SOURCES,
            "Linux",
            "x86_64",
        ),
    ],
    ids=["sums", "file", "machine", "system", "variable", "version", "scripts"],
)
def test_whatever_changes_the_result_changes_the_key(key: str) -> None:
    assert key != KEY


def test_an_estimate_does_not_cause_a_rebuild() -> None:
    assert cache_key(replace(SMALL, cold_seconds=999), SOURCES, "Linux", "x86_64") == KEY


def test_a_module_that_borrows_files_depends_on_the_folder_that_vouches_for_them() -> None:
    host = next(module for module in MODULES if module.name == "pulumi-language-python")
    assert set(read_sources(tools_folder(), host)) == {"pulumi", "pulumi-language-python"}


def test_a_published_folder_appears_whole(cache: Cache) -> None:
    scratch = cache.scratch("build")
    (scratch / "program").write_text("x")
    publish(scratch, cache.root / "tools" / "build")
    assert (cache.root / "tools" / "build" / "program").read_text() == "x"
    assert not scratch.exists()


def test_scratch_work_starts_empty_after_a_crash(cache: Cache) -> None:
    (cache.scratch("build") / "half").write_text("x")
    assert list(cache.scratch("build").iterdir()) == []


def test_the_lock_of_a_build_is_held_by_one_at_a_time(cache: Cache) -> None:
    def must_not_wait() -> None:
        pytest.fail("waited for a lock that nobody has")

    with cache.lock("build", must_not_wait):
        file = cache.root / "locks" / "build.lock"
        with file.open() as second:
            assert not try_lock(second.fileno())
    with file.open() as second:
        assert try_lock(second.fileno())
