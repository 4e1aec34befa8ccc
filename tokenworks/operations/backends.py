"""Where Pulumi keeps the state of an environment's stacks: a folder of this checkout, or a bucket.

Both hold the same files under the same names, so that whatever is read of a state is read alike.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tokenworks.environment.sections import Environment
from tokenworks.files import private_folder, write_whole
from tokenworks.workspace import PROJECT, Workspace

KEY_BYTES = 32
SHELL_FILE = "env"
_STACKS = f".pulumi/stacks/{PROJECT}/"
_LOCKS = f".pulumi/locks/organization/{PROJECT}/"
"""Where Pulumi's own backends keep them (pulumi/pulumi, pkg/backend/diy)."""


class Store(Protocol):
    """Files by key, as a bucket has them."""

    def read(self, key: str) -> bytes | None:
        """The content of a file, or None where there is none."""

    def keys(self, prefix: str) -> tuple[str, ...]:
        """Keys that begin with a prefix, sorted."""


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Who holds a stack; ``is_shared`` where other machines hold it in the same place."""

    pid: int
    host: str
    is_shared: bool

    def is_running(self) -> bool:
        """Whether the holder may still be at work: elsewhere it may, here it shows.

        Two machines can have one hostname, so that of a shared lock does not say that it is here.
        """
        if self.is_shared or self.host != socket.gethostname():
            return True
        try:
            return Path(f"/proc/{self.pid}/comm").read_text("utf-8").strip() == "pulumi"
        except OSError:
            return False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One place of states, how secrets in them are encrypted, and where a shell learns of both.

    ``is_shared`` is true of a place that other machines use as well.
    """

    secrets_provider: str
    variables: Mapping[str, str]
    shell_file: Path
    is_shared: bool
    store: Store = field(repr=False)

    def stacks(self) -> tuple[str, ...]:
        """Stacks that have a state."""
        names = (key.removeprefix(_STACKS) for key in self.store.keys(_STACKS))
        return tuple(sorted(name[: -len(".json")] for name in names if name.endswith(".json")))

    def deployment(self, stack: str) -> dict[str, Any]:
        """The latest state of a stack; empty for a stack that does not exist."""
        content = self.store.read(state_key(stack))
        return json.loads(content)["checkpoint"]["latest"] or {} if content else {}

    def locks(self, stack: str) -> list[Lock]:
        """Who holds a stack now; a lock that is given back meanwhile is none."""
        contents = (self.store.read(key) for key in self.store.keys(f"{_LOCKS}{stack}/"))
        locks = (_lock(content, is_shared=self.is_shared) for content in contents if content)
        return [lock for lock in locks if lock is not None]


def state_key(stack: str) -> str:
    """The key under which a stack's state is kept."""
    return f"{_STACKS}{stack}.json"


def backend_of(workspace: Workspace, name: str, environment: Environment) -> Backend:
    """Where an environment's states are; on AWS the account is asked who is calling first.

    Raises:
        OperationError: wrong account or region, no credentials, or no bucket yet.
    """
    if environment.aws is None:
        return local_backend(workspace)
    from tokenworks.operations.aws_state import bucket_backend

    return bucket_backend(workspace, name, environment.aws)


def local_backend(workspace: Workspace) -> Backend:
    """A folder of this checkout, with a passphrase of its own."""
    return Backend(
        secrets_provider="passphrase",
        variables={
            "PULUMI_BACKEND_URL": f"file://{workspace.state}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(workspace.passphrase),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        },
        shell_file=workspace.machine / SHELL_FILE,
        is_shared=False,
        store=_Folder(workspace.state),
    )


def shell_file(workspace: Workspace, name: str, platform: str) -> Path:
    """What a shell sources for an environment; one with a backend of its own has its own."""
    return workspace.machine / (f"{name}/{SHELL_FILE}" if platform == "aws" else SHELL_FILE)


def prepare_local(workspace: Workspace) -> None:
    """Have the folder and its passphrase, which is made once."""
    private_folder(workspace.machine)
    workspace.state.mkdir(exist_ok=True)
    if not workspace.passphrase.exists():
        write_whole(workspace.passphrase, secrets.token_urlsafe(KEY_BYTES))


@dataclass(frozen=True)
class _Folder:
    """Files below a folder."""

    root: Path

    def read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except OSError:
            return None

    def keys(self, prefix: str) -> tuple[str, ...]:
        files = (self.root / prefix).rglob("*.json")
        return tuple(sorted(str(file.relative_to(self.root)) for file in files))


def _lock(content: bytes, *, is_shared: bool) -> Lock | None:
    """The lock in a file; None while it is still being written."""
    try:
        read = json.loads(content)
        return Lock(pid=int(read["pid"]), host=str(read["hostname"]), is_shared=is_shared)
    except (ValueError, KeyError):
        return None
