"""Building: real Go on small modules, in a cache of the test's own."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toolchain.conftest import HELLO, SMALL, Build, run
from tokenworks.errors import OperationError
from tokenworks.toolchain.build import RECORD, published, remedy_for
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.news import Phase, Progress
from tokenworks.toolchain.running import CancelledError, CommandError, Commands


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_build_is_published_under_the_tools_name_with_what_it_was_built_from(
    build: Build, cache: Cache, tools: Path
) -> None:
    build(SMALL)
    folder = published(cache, tools, SMALL)
    assert sorted(path.name for path in folder.iterdir()) == [RECORD, "etcd"]
    assert run(folder / "etcd") == "etcd Version: 3.7.3\n"
    assert json.loads((folder / RECORD).read_text())["version"] == "3.7.3"


def test_a_build_leaves_the_checkout_as_it_was_and_no_scratch(
    build: Build, cache: Cache, tools: Path
) -> None:
    before = contents(tools)
    build(SMALL)
    assert contents(tools) == before
    assert list((cache.root / "scratch").iterdir()) == []


def test_a_second_build_finds_the_first(build: Build, cache: Cache, tools: Path) -> None:
    build(SMALL)
    program = published(cache, tools, SMALL) / "etcd"
    before = program.stat()
    news: list[Progress] = []
    build(SMALL, news)
    assert [each.phase for each in news] == [Phase.DONE]
    assert program.stat().st_ino == before.st_ino


def test_changed_sources_are_built_beside_the_old_ones(
    build: Build, cache: Cache, tools: Path
) -> None:
    build(SMALL)
    (tools / "etcd" / "main.go").write_text(HELLO.replace('"fmt"', '"fmt" // again'))
    build(SMALL)
    assert len(list((cache.root / "tools").iterdir())) == 2


def test_the_linker_sets_the_version_that_a_program_says(
    build: Build, cache: Cache, tools: Path
) -> None:
    source = 'package main\n\nvar Version = "unset"\n\nfunc main() { println(Version) }\n'
    (tools / "etcd" / "main.go").write_text(source)
    build(replace(SMALL, variables={"main.Version": "v3.7.3"}))
    assert list((cache.root / "tools").iterdir())


def test_a_module_that_does_not_compile_leaves_nothing_and_shows_the_end_of_its_log(
    build: Build, cache: Cache, tools: Path
) -> None:
    (tools / "etcd" / "main.go").write_text(HELLO.replace("Println", "Printline"))
    with pytest.raises(OperationError) as caught:
        build(SMALL)
    assert "undefined: fmt.Printline" in str(caught.value)
    assert str(cache.root / "logs") in str(caught.value)
    assert not (cache.root / "tools").exists()
    assert list((cache.root / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (HELLO.replace("3.7.3", "3.7.2"), "says version 3.7.2, not 3.7.3"),
        (HELLO.replace("fmt.Println", 'panic("no"); fmt.Println'), "ends with code 2: panic: no"),
    ],
    ids=["another version", "does not start"],
)
def test_a_program_that_fails_its_trial_is_not_published(
    build: Build, cache: Cache, tools: Path, source: str, reason: str
) -> None:
    (tools / "etcd" / "main.go").write_text(source)
    with pytest.raises(OperationError, match=reason):
        build(SMALL)
    assert not (cache.root / "tools").exists()


def test_a_failure_is_told_to_whoever_watches(build: Build, tools: Path) -> None:
    news: list[Progress] = []
    (tools / "etcd" / "go.mod").write_text("module example.test/server\n\ngo 9.99\n")
    with pytest.raises(OperationError, match=r"go 9\.99|go >= 9\.99"):
        build(SMALL, news)
    assert {each.phase for each in news[:-1]} == {Phase.FETCHING}
    assert news[-1].phase is Phase.FAILED


def test_a_module_whose_sums_are_missing_is_refused(build: Build, tools: Path) -> None:
    (tools / "etcd" / "main.go").write_text('package main\n\nimport _ "example.test/x"\n')
    with pytest.raises(OperationError, match=r"example\.test/x"):
        build(SMALL)


def _build_in_a_process(cache: Path, tools: Path, done: multiprocessing.Queue[str]) -> None:
    import os

    from tokenworks.toolchain.build import Builder
    from tokenworks.toolchain.golang import find_go

    go, because = find_go(os.environ)
    assert go is not None, because
    news: list[Progress] = []
    Builder(
        cache=Cache(cache),
        tools=tools,
        go=go,
        environ=os.environ,
        commands=Commands(),
        report=news.append,
        at_once=1,
    ).build(SMALL)
    done.put("built" if any(each.phase is Phase.COMPILING for each in news) else "found")


def test_two_checkouts_that_build_at_once_build_once(
    build: Build, cache: Cache, tools: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    done: multiprocessing.Queue[str] = context.Queue()
    workers = [
        context.Process(target=_build_in_a_process, args=(cache.root, tools, done))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert sorted(done.get(timeout=1) for _ in workers) == ["built", "found", "found"]


def test_cancelling_ends_a_command_and_what_it_started(tmp_path: Path) -> None:
    commands = Commands()
    ticks = 0

    def tick(_: int, __: str) -> None:
        nonlocal ticks
        ticks += 1
        commands.cancel()

    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    with pytest.raises(CancelledError):
        commands.run(
            ["/bin/sh", "-c", script],
            folder=tmp_path,
            environ={"PATH": "/usr/bin:/bin"},
            log=tmp_path / "log",
            tick=tick,
        )
    child = Path("/proc", (tmp_path / "child").read_text().strip())
    assert not child.exists() or (child / "cmdline").read_bytes() == b""
    assert ticks >= 1


def test_a_log_has_the_command_and_all_that_it_printed(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        Commands().run(
            ["/bin/sh", "-c", "seq 40; echo last >&2; exit 4"],
            folder=tmp_path,
            environ={"PATH": "/usr/bin:/bin"},
            log=tmp_path / "log",
            tick=lambda _, __: None,
        )
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0].startswith("$ /bin/sh -c seq 40")
    assert len(log) == 42
    assert caught.value.code == 4
    assert caught.value.tail[-1] == "last"
    assert len(caught.value.tail) == 15


@pytest.mark.parametrize(
    ("tail", "remedy"),
    [
        ("write /x/y.a: no space left on device", "free some disk space"),
        ("k8s.io/x: /go/pkg/tool/compile: signal: killed", "ran out of memory"),
        ('Get "https://p/x.zip": dial tcp: lookup p: no such host', "check the network"),
        ("verifying go.etcd.io/x@v1: checksum mismatch", "do not use it"),
        ("x.go:1: undefined: y", "read the log"),
    ],
)
def test_the_remedy_fits_the_failure(tail: str, remedy: str) -> None:
    assert remedy in remedy_for(("go: building", tail))
