"""Looking at a gateway that another command serves, and stopping, starting and changing parts."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from typing import Any, Final

from tokenworks.errors import ConfigError, OperationError, Problem
from tokenworks.files import write_whole
from tokenworks.gateway.layout import GATEWAY, Folders
from tokenworks.gateway.served import POLL_SECONDS, Part, is_served, read_stopped

WAIT_SECONDS: Final = 15.0


def parts_of(folders: Folders, environment: str) -> tuple[Part, ...]:
    """Every process of the gateway that is being served.

    Raises:
        OperationError: none is.
    """
    if not is_served(folders) or not folders.status.exists():
        raise OperationError(
            f"the gateway of {environment}",
            reason="is not being served on this machine",
            remedy=f"run `tokenworks gateway serve {environment}` in another terminal",
        )
    return tuple(Part(**each) for each in json.loads(folders.status.read_text("utf-8")))


def set_running(folders: Folders, environment: str, name: str, *, running: bool) -> Part:
    """Stop or start one process, and wait until it is so.

    Raises:
        ConfigError: there is no such process, or it is the gateway itself.
        OperationError: nothing is served, or the process does not do as asked in time.
    """
    find(parts_of(folders, environment), name)
    if name == GATEWAY:
        raise ConfigError([_problem(name, "is Envoy, which ends with the command that serves it")])
    stopped = read_stopped(folders)
    wanted = stopped - {name} if running else stopped | {name}
    write_whole(folders.stopped, "\n".join(sorted(wanted)))
    end = time.monotonic() + WAIT_SECONDS
    while True:
        part = find(parts_of(folders, environment), name)
        if (part.state == "runs") is running:
            return part
        if running and name in read_stopped(folders):
            raise OperationError(name, reason="could not be started", remedy=f"read {part.log}")
        if time.monotonic() > end:
            what = "start" if running else "stop"
            reason = f"does not {what} within {WAIT_SECONDS:.0f} s"
            raise OperationError(name, reason=reason, remedy=f"read {part.log}")
        time.sleep(POLL_SECONDS)


def find(parts: Sequence[Part], name: str) -> Part:
    """The process of a name.

    Raises:
        ConfigError: there is none; names those that there are.
    """
    for part in parts:
        if part.name == name:
            return part
    raise ConfigError([_problem(name, f"is none of {', '.join(part.name for part in parts)}")])


def _problem(name: str, reason: str) -> Problem:
    remedy = "name a process that `tokenworks gateway status` shows"
    return Problem(key="name", given=name, reason=reason, remedy=remedy)


def change_engine(part: Part, texts: Sequence[str]) -> dict[str, Any]:
    """Change settings of a running engine, given as ``name=value``; returns all its settings.

    Raises:
        ConfigError: it is no engine, or a name or value is wrong.
        OperationError: the engine does not answer.
    """
    if not part.control:
        raise ConfigError([_problem(part.name, "is no engine and has no settings")])
    status, said = _ask(part, "PATCH", "/settings", json.dumps(_changes(texts)).encode())
    if status != http.client.OK:
        problem = Problem(
            key=part.name,
            reason=str(said["error"]),
            remedy=f"`curl {part.control}/state` shows the settings",
        )
        raise ConfigError([problem])
    return said


def _changes(texts: Sequence[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            remedy = "write name=value, such as fault=unavailable"
            raise ConfigError(
                [Problem(key="setting", given=text, reason="has no value", remedy=remedy)]
            )
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
    return changes


def _ask(part: Part, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(part.control.removeprefix("http://"), timeout=5)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except (OSError, http.client.HTTPException) as error:
        raise OperationError(
            f"{part.name} at {part.control}",
            reason=f"does not answer: {error}",
            remedy=f"start it with `tokenworks gateway start`, or read {part.log}",
        ) from error
    finally:
        connection.close()
    return response.status, answer
