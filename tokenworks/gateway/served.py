"""A gateway that is being served: its processes, and what other commands ask of them by files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import private_folder, write_whole
from tokenworks.gateway.layout import GATEWAY, LOOPBACK, STORE, Folders
from tokenworks.gateway.supervisor import Program, Supervisor
from tokenworks.toolchain.cache import try_lock

POLL_SECONDS: Final = 0.2
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One process of a gateway that is being served."""

    name: str
    about: str
    address: str
    control: str
    """Where an engine's settings are changed; empty for what is no engine."""
    state: str
    pid: int | None
    log: str


@dataclass
class Served:
    """A gateway on loopback that runs until it is told to stop."""

    environment: str
    folders: Folders
    ports: Mapping[str, int]
    programs: tuple[Program, ...]
    supervisor: Supervisor
    say: Say
    _stopped: frozenset[str] = frozenset()

    def parts(self) -> tuple[Part, ...]:
        """Every process and how it is."""
        return tuple(self._part(program) for program in self.programs)

    def _part(self, program: Program) -> Part:
        pid = self.supervisor.pid(program.name)
        control = self.ports.get(f"{program.name}-control")
        return Part(
            name=program.name,
            about=program.about,
            address=f"{LOOPBACK}:{program.port}",
            control=f"http://{LOOPBACK}:{control}" if control else "",
            state="runs" if pid else "stopped",
            pid=pid,
            log=str(self.supervisor.log(program.name)),
        )

    def start(self) -> None:
        """Start everything; what does not depend on each other starts side by side.

        Raises:
            OperationError: a process did not become ready; those already started are ended.
        """
        try:
            for program in self.programs:
                # The service asks its store at once, and Envoy comes last so that it finds all.
                alone = program.name in (STORE, GATEWAY)
                if program.name == GATEWAY:
                    for other in self.programs[:-1]:
                        self.supervisor.await_ready(other)
                self.supervisor.start(program, wait=alone)
        except BaseException:
            self.supervisor.stop_all()
            raise
        self._write_status()

    def follow(self, over: threading.Event) -> None:
        """Do what the files of other commands ask for, until the event or until Envoy ends.

        Raises:
            OperationError: Envoy ended by itself.
        """
        while not over.wait(POLL_SECONDS):
            for name, code in self.supervisor.ended().items():
                self._write_status()
                if name == GATEWAY:
                    raise self._gateway_ended(code)
                self._stopped |= {name}
                write_whole(self.folders.stopped, "\n".join(sorted(self._stopped)))
                self.say(f"{name} ended with code {code}; {self._start_again(name)}")
            self._obey()

    def _obey(self) -> None:
        wanted = read_stopped(self.folders)
        if wanted == self._stopped:
            return
        by_name = {program.name: program for program in self.programs}
        for name in sorted(wanted - self._stopped):
            self.supervisor.stop(name)
            self.say(f"{name} stopped; {self._start_again(name)}")
        asked = sorted(self._stopped - wanted)
        failed = {name for name in asked if not self._restarts(by_name[name])}
        self._stopped = wanted | failed
        if failed:
            write_whole(self.folders.stopped, "\n".join(sorted(self._stopped)))
        self._write_status()

    def _restarts(self, program: Program) -> bool:
        try:
            self.supervisor.start(program)
        except OperationError as error:
            self.supervisor.stop(program.name)
            self.say(str(error))
            return False
        self.say(f"{program.name} runs again")
        return True

    def _start_again(self, name: str) -> str:
        return f"start it again with: tokenworks gateway start {self.environment} {name}"

    def _gateway_ended(self, code: int) -> OperationError:
        log = self.supervisor.log(GATEWAY)
        return OperationError(
            "Envoy", reason=f"ended with code {code}", remedy=f"read the end of {log}"
        )

    def _write_status(self) -> None:
        write_whole(self.folders.status, json.dumps([asdict(part) for part in self.parts()]))

    def stop(self) -> None:
        """End everything and take away what says that it runs."""
        self.supervisor.stop_all()
        for file in (self.folders.status, self.folders.stopped):
            file.unlink(missing_ok=True)


def read_stopped(folders: Folders) -> frozenset[str]:
    """The names of what somebody wants stopped."""
    try:
        return frozenset(folders.stopped.read_text("utf-8").split())
    except FileNotFoundError:
        return frozenset()


@contextmanager
def held(folders: Folders) -> Iterator[None]:
    """Be the only one who serves this environment.

    Raises:
        OperationError: somebody else does.
    """
    private_folder(folders.root)
    with folders.lock.open("w") as file:
        if not try_lock(file.fileno()):
            raise OperationError(
                f"serving the gateway below {folders.root}",
                reason="another command does so already",
                remedy="end that one first, or look at it with `tokenworks gateway status`",
            )
        yield


def is_served(folders: Folders) -> bool:
    """Whether a command serves this environment now."""
    try:
        with folders.lock.open("r+") as file:
            return not try_lock(file.fileno())
    except FileNotFoundError:
        return False
