"""Building one module: in a scratch copy, tried out, then published whole into the cache.

The checkout is only read. Whatever ends early leaves nothing behind that is ever used; packages
that were compiled stay in Go's own build cache, so that the next try goes on from there.
"""

from __future__ import annotations

import json
import platform
import shutil
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import (
    SOURCES,
    Cache,
    cache_key,
    link_flags,
    publish,
    read_sources,
)
from tokenworks.toolchain.golang import Go
from tokenworks.toolchain.kinds import Borrowed, Module
from tokenworks.toolchain.news import Phase, Progress, Report
from tokenworks.toolchain.running import CommandError, Commands
from tokenworks.toolchain.trial import try_out

RECORD: Final = "build.json"
"""The file beside the programs that says what they were built from."""


class Builder:
    """Builds modules with one Go into one cache; safe to use from several threads at once."""

    def __init__(
        self,
        *,
        cache: Cache,
        tools: Path,
        go: Go,
        environ: Mapping[str, str],
        commands: Commands,
        report: Report,
        at_once: int,
    ) -> None:
        self._cache, self._tools, self._go = cache, tools, go
        self._environ = go.environ(environ)
        self._commands, self._report = commands, report
        self._compiling = threading.Semaphore(at_once)

    def build(self, module: Module) -> None:
        """Build a module unless another run has just published it.

        Raises:
            OperationError: it could not be built; says why, where the log is and what to do.
            CancelledError: the commands were cancelled.
        """
        place = published(self._cache, self._tools, module)
        try:
            with self._cache.lock(place.name, partial(self._wait, module)):
                if not place.exists():
                    self._build(module, place)
        except (OperationError, OSError):
            self._say(module, Phase.FAILED)
            raise
        self._say(module, Phase.DONE)

    def _build(self, module: Module, place: Path) -> None:
        log = self._cache.log(place.name)
        log.unlink(missing_ok=True)
        scratch = self._cache.scratch(place.name)
        try:
            source, finished = scratch / "source", scratch / "finished"
            self._fetch(module, source, log)
            self._compile(module, source, finished, log)
            self._ship(module, scratch, finished)
            self._say(module, Phase.TRYING)
            try_out(module.name, finished, home=scratch)
            self._record(module, finished)
            publish(finished, place)
        except CommandError as error:
            raise _failure(module, error, log) from error
        except OSError as error:
            raise OperationError(
                f"building {module.name} in {scratch}",
                reason=str(error),
                remedy=remedy_for((str(error),)),
            ) from error
        finally:
            shutil.rmtree(scratch)

    def _fetch(self, module: Module, source: Path, log: Path) -> None:
        """Copy the folder, and let Go download every module that the packages need."""
        self._say(module, Phase.FETCHING)
        self._copy_folder(module.name, source)
        for borrowed in module.embeds:
            shutil.copyfile(self._locate(borrowed, source), source / Path(borrowed.path).name)
        # Listing dependencies downloads what they need and nothing else, checked by go.sum.
        # The format prints nothing, so that the log has only what was downloaded.
        arguments = ["list", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", *_paths(module)]
        self._go_run(module, Phase.FETCHING, source, log, arguments)

    def _compile(self, module: Module, source: Path, finished: Path, log: Path) -> None:
        finished.mkdir()
        arguments = ["build", "-v", "-o", f"{finished}/", "-ldflags", link_flags(module)]
        if not self._compiling.acquire(blocking=False):
            self._say(module, Phase.WAITING, "until another one is compiled")
            self._compiling.acquire()
        try:
            self._say(module, Phase.COMPILING)
            self._go_run(module, Phase.COMPILING, source, log, [*arguments, *_paths(module)])
        finally:
            self._compiling.release()
        for package in module.packages:
            (finished / package.compiles_to).rename(finished / package.name)

    def _ship(self, module: Module, scratch: Path, finished: Path) -> None:
        for borrowed in module.ships:
            source = scratch / "borrowed" / borrowed.folder
            if not source.exists():
                self._copy_folder(borrowed.folder, source)
            script = finished / Path(borrowed.path).name
            shutil.copyfile(self._locate(borrowed, source), script)
            script.chmod(0o755)

    def _copy_folder(self, folder: str, place: Path) -> None:
        place.mkdir(parents=True)
        for pattern in SOURCES:
            for path in (self._tools / folder).glob(pattern):
                shutil.copyfile(path, place / path.name)

    def _locate(self, borrowed: Borrowed, source: Path) -> Path:
        """A file of a downloaded module, the one that the folder's ``go.sum`` vouches for."""
        command = [str(self._go.path), "mod", "download", "-json", borrowed.go_module]
        said = self._commands.read(command, folder=source, environ=self._environ)
        return Path(json.loads(said)["Dir"]) / borrowed.path

    def _go_run(
        self, module: Module, phase: Phase, source: Path, log: Path, arguments: list[str]
    ) -> None:
        def tick(lines: int, last: str) -> None:
            counted = f"{lines} packages, {last}" if phase is Phase.COMPILING and lines else last
            self._say(module, phase, counted)

        self._commands.run(
            [str(self._go.path), *arguments],
            folder=source,
            # Compilers work beside the result: a small /tmp is not enough for them.
            environ={**self._environ, "GOTMPDIR": str(_made(source.with_name("tmp")))},
            log=log,
            tick=tick,
        )

    def _wait(self, module: Module) -> None:
        self._commands.check()
        self._say(module, Phase.WAITING, "another run is building it")

    def _say(self, module: Module, phase: Phase, detail: str = "") -> None:
        self._report(Progress(module=module.name, phase=phase, detail=detail))

    def _record(self, module: Module, finished: Path) -> None:
        record = {
            "module": module.name,
            "version": module.version,
            "go": self._go.version,
            "system": platform.system(),
            "machine": platform.machine(),
        }
        (finished / RECORD).write_text(f"{json.dumps(record, indent=2)}\n")


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _paths(module: Module) -> list[str]:
    return [package.path for package in module.packages]


def published(cache: Cache, tools: Path, module: Module) -> Path:
    """The folder where a module's programs are once they are built; absent until then."""
    sources = read_sources(tools, module)
    key = cache_key(module, sources, platform.system(), platform.machine())
    return cache.tool_folder(module, key)


REMEDIES: Final = (
    (
        "no space left on device",
        "free some disk space (a full build needs 15 GiB) and run it again",
    ),
    ("signal: killed", "the machine ran out of memory: end other work and run it again"),
    ("cannot allocate memory", "the machine ran out of memory: end other work and run it again"),
    ("dial tcp", "check the network or set GOPROXY to a module proxy that it reaches"),
    ("tls:", "check the network or set GOPROXY to a module proxy that it reaches"),
    ("i/o timeout", "check the network or set GOPROXY to a module proxy that it reaches"),
    ("checksum mismatch", "the module proxy served other files than go.sum names: do not use it"),
)
"""What to do about a failed build, by a word in the last lines of its log."""


def remedy_for(tail: tuple[str, ...]) -> str:
    """What to do about a failed build; by default to read the log and try again."""
    said = "\n".join(tail).lower()
    for sign, remedy in REMEDIES:
        if sign in said:
            return remedy
    return "read the log, then run it again: whatever was compiled is kept"


def _failure(module: Module, error: CommandError, log: Path) -> OperationError:
    lines = "\n".join(f"  {line}" for line in error.tail)
    return OperationError(
        f"building {module.name} {module.version} from tools/{module.name}",
        reason=str(error),
        remedy=f"{remedy_for(error.tail)}; {log} ends with\n{lines}\n(finished tools are kept)",
    )
