"""From names to programs: what is there, and building what is not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.toolchain.build import Builder, published
from tokenworks.toolchain.cache import Cache
from tokenworks.toolchain.catalogue import (
    MODULE,
    TOOL,
    TOOLS,
    WHEEL,
    with_partners,
)
from tokenworks.toolchain.decide import (
    State,
    ToolStatus,
    builds_at_once,
    choose,
    modules_to_build,
    wheels_to_install,
)
from tokenworks.toolchain.golang import get_go
from tokenworks.toolchain.home import make_home
from tokenworks.toolchain.kinds import Module, Wheel
from tokenworks.toolchain.look import look
from tokenworks.toolchain.news import Report
from tokenworks.toolchain.running import CancelledError, Commands
from tokenworks.toolchain.wheels import (
    Installer,
    link_programs,
    wheel_place,
    wheel_requirements,
)

ALL: Final = tuple(tool.name for tool in TOOLS)
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_GIB: Final = 2**30
_MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux says what a container may use: control groups version 2 and 1."""


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """Tools that are ready to run."""

    statuses: tuple[ToolStatus, ...]
    home: Path | None = None
    """See ``pulumi_home``; None when no tool of Pulumi's is among these."""

    def path(self, name: str) -> Path:
        """The absolute path of a tool's program.

        Raises:
            KeyError: the toolbox was not asked for this tool.
        """
        found = {each.name: each.path for each in self.statuses}[name]
        if found is None:
            raise KeyError(name)
        return found

    @property
    def search_path(self) -> tuple[Path, ...]:
        """The folders to put before PATH: those of the tools that were made here.

        Each holds only programs of one build, so that nothing else is shadowed; tools of the
        user's own are on PATH already.
        """
        built = [each for each in self.statuses if each.state is State.BUILT]
        # A provider on PATH would go before the one that is installed in the Pulumi home.
        commands = [each for each in built if not TOOL[each.name].plugin_folder]
        return tuple(dict.fromkeys(each.path.parent for each in commands if each.path))

    @property
    def pulumi_home(self) -> Path:
        """A PULUMI_HOME in which the Kubernetes provider is installed.

        The user's own log-in lies in another one: set ``PULUMI_CREDENTIALS_PATH`` to keep it.

        Raises:
            KeyError: the toolbox was not asked for any tool of Pulumi's.
        """
        if self.home is None:
            raise KeyError("pulumi")
        return self.home


def inspect(
    names: Iterable[str] = ALL,
    *,
    environ: Mapping[str, str] = os.environ,
    tools: Path | None = None,
) -> tuple[ToolStatus, ...]:
    """Where each tool would come from, without building or downloading anything.

    ``tools`` is the folder of Go modules, by default the checkout's.
    """
    return _inspect(tuple(names), environ, Cache.of(environ), tools or tools_folder())


def _inspect(
    names: Sequence[str], environ: Mapping[str, str], cache: Cache, tools: Path
) -> tuple[ToolStatus, ...]:
    return choose(names, look(names, environ, own=cache.root), _built(names, cache, tools))


def _built(names: Iterable[str], cache: Cache, tools: Path) -> dict[str, Path]:
    places = {name: _place(TOOL[name].module, cache, tools) / name for name in names}
    return {name: path for name, path in places.items() if os.access(path, os.X_OK)}


def _place(module: str, cache: Cache, tools: Path) -> Path:
    if module in WHEEL:
        return wheel_place(cache, tools, WHEEL[module])
    return published(cache, tools, MODULE[module])


def ensure(
    names: Iterable[str],
    report: Report,
    *,
    environ: Mapping[str, str] = os.environ,
    tools: Path | None = None,
) -> Toolbox:
    """Every named tool, ready to run: the user's own where good enough, else made in the cache.

    A tool that works only together with another brings that one along.

    Nothing is built twice: a second call, from this checkout or another, finds the first one's
    results. From nothing it takes about 20 minutes on 2 cores and 15 GiB of disk, most of it in
    Go's own caches.

    Raises:
        OperationError: a tool could not be built; says why and what to do. What other builds had
            finished stays.
    """
    wanted, folder, cache = with_partners(names), tools or tools_folder(), Cache.of(environ)
    statuses = _inspect(wanted, environ, cache, folder)
    modules, wheels = modules_to_build(statuses), wheels_to_install(statuses)
    if modules or wheels:
        cache.prepare()
        for wheel in wheels:
            _install(wheel, cache, folder, environ, report)
        if modules:
            _build(modules, cache, folder, environ, report)
        statuses = _inspect(wanted, environ, cache, folder)
    home, placed = make_home(cache, statuses)
    return Toolbox(statuses=placed, home=home)


def tools_folder() -> Path:
    """The ``tools/`` folder of the checkout that this package lies in.

    Raises:
        OperationError: the package was installed without its checkout.
    """
    folder = _CHECKOUT / "tools"
    if not folder.is_dir():
        raise OperationError(
            f"the Go modules at {folder}",
            reason="they are not there",
            remedy="run tokenworks from a checkout, installed with pip install --editable",
        )
    return folder


def _install(
    wheel: Wheel, cache: Cache, tools: Path, environ: Mapping[str, str], report: Report
) -> None:
    programs = " and ".join(wheel.programs)
    installer = Installer(
        name=wheel.name,
        requirements=wheel_requirements(tools, wheel),
        otherwise=f"put a {programs} of your own on PATH",
        cache=cache,
        environ=environ,
        commands=Commands(),
        report=report,
    )
    installer.install(lambda folder: link_programs(wheel, folder))


def _build(
    modules: Sequence[Module], cache: Cache, tools: Path, environ: Mapping[str, str], report: Report
) -> None:
    """Build every module; the first failure ends the others, which go on from there next time."""
    commands = Commands()
    go = get_go(cache, tools, environ, commands, report)
    builder = Builder(
        cache=cache,
        tools=tools,
        go=go,
        environ=environ,
        commands=commands,
        report=report,
        at_once=builds_at_once(os.cpu_count() or 1, memory_gib()),
    )
    # A thread for each, so that one downloads while another compiles.
    with ThreadPoolExecutor(max_workers=len(modules)) as pool:
        try:
            running = [pool.submit(builder.build, module) for module in modules]
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            commands.cancel()
    errors = [error for each in running if (error := each.exception()) is not None]
    real = [error for error in errors if not isinstance(error, CancelledError)]
    if errors:
        raise (real or errors)[0]


def memory_gib() -> float:
    """This machine's memory, or what its container may use of it."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (_limit(path) for path in _MEMORY_LIMITS)
    return min((physical, *(limit for limit in limits if limit is not None))) / _GIB


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such control group, or "max"
        return None
