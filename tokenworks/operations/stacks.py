"""Pulumi's stacks of one environment: opening, updating, destroying, and what they report."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from pulumi import automation as auto
from rich.console import Console

from tokenworks.errors import OperationError
from tokenworks.operations.backends import KEY_BYTES, Backend
from tokenworks.operations.progress import Tracker, shown
from tokenworks.workspace import PROJECT, Workspace, split_stack

UPDATE_WAIT_SECONDS = 120
"""How long to wait for somebody else's update of the same stack before giving up."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How many resources an update creates, updates, replaces, deletes and leaves alone."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    same: int = 0

    @property
    def any(self) -> bool:
        """Whether anything changes."""
        return bool(self.create or self.update or self.replace or self.delete)


def count_changes(operations: Mapping[auto.OpType, int]) -> Changes:
    """Counts from Pulumi's own, by kind of operation.

    A replacement is counted once, under ``replace``; its parts are not counted again.
    """
    return Changes(
        **{kind.name: operations.get(auto.OpType(kind.name), 0) for kind in fields(Changes)}
    )


class Stacks:
    """The stacks of one checkout under one backend."""

    def __init__(
        self, workspace: Workspace, pulumi_home: Path, console: Console, backend: Backend
    ) -> None:
        self.workspace, self._home, self._console = workspace, pulumi_home, console
        self.backend = backend

    def under(self, backend: Backend) -> Stacks:
        """The stacks of the same checkout under another backend."""
        return Stacks(self.workspace, self._home, self._console, backend)

    def names(self) -> tuple[str, ...]:
        """Stacks that exist in the backend."""
        return self.backend.stacks()

    def open(self, name: str) -> auto.Stack:
        """The stack, created if there is none.

        Raises:
            OperationError: it cannot be read or made, as with a wrong passphrase or no rights.
        """
        with _readable(name, "selection"):
            return auto.create_or_select_stack(
                stack_name=name, work_dir=str(self.workspace.root), opts=self._options()
            )

    def ensure_secrets(self, stack: str, keys: Sequence[str]) -> tuple[str, ...]:
        """A random secret under each configuration key that has none; returns the new ones.

        Values go through standard input: arguments can be read by everybody on the machine.
        """
        self.open(stack)
        settings = json.loads(self.pulumi("config", "--json", "--stack", stack).stdout)
        missing = tuple(key for key in keys if f"{PROJECT}:{key}" not in settings)
        for key in missing:
            value = f"tw-{secrets.token_urlsafe(KEY_BYTES)}"
            self.pulumi("config", "set", "--secret", key, "--stack", stack, stdin=value)
        return missing

    def preview(self, name: str) -> Changes:
        """What an update would change; refused by the policy pack where the update would be."""
        stack = self.open(name)
        with self._tracked(name, None, "preview") as tracker:
            result = stack.preview(
                on_event=tracker, policy_packs=[str(self.workspace.policy_pack)], color="never"
            )
        return count_changes(result.change_summary)

    def update(self, name: str, *, planned: int | None, refresh: bool) -> Changes:
        """Make the stack what its program says, under the policy pack."""
        stack = self._ready(name)
        with self._tracked(name, planned, "update") as tracker:
            result = stack.up(
                on_event=tracker,
                policy_packs=[str(self.workspace.policy_pack)],
                refresh=refresh,
                show_secrets=False,
                color="never",
            )
        return count_changes(result.summary.resource_changes or {})

    def destroy(self, name: str, *, planned: int | None) -> None:
        """Delete everything of a stack, then the stack; its settings stay, keys included."""
        stack = self._ready(name)
        with self._tracked(name, planned, "destroy") as tracker:
            stack.destroy(on_event=tracker, color="never")
        self.forget(name)

    def forget(self, name: str) -> None:
        """Drop a stack whose resources are gone; its settings stay."""
        self.pulumi("stack", "rm", name, "--yes", "--force", "--preserve-config")

    def resources(self, name: str) -> int:
        """Resources that a stack's state holds."""
        return len(self.backend.deployment(name).get("resources") or [])

    def pulumi(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the Pulumi CLI on this checkout."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],  # noqa: S607  (the toolbox is on PATH)
            cwd=self.workspace.root,
            env={**os.environ, **self._variables_here()},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise OperationError(
                f"pulumi {' '.join(arguments[:2])}",
                reason=done.stderr.strip() or f"exit code {done.returncode}",
                remedy="correct what it names and try again",
            )
        return done

    def variables(self) -> dict[str, str]:
        """Environment variables for Pulumi on this checkout, whoever runs it."""
        return {**self.backend.variables, "PULUMI_HOME": str(self._home)}

    def _variables_here(self) -> dict[str, str]:
        """The same for a Pulumi that ends with this process."""
        return {**self.variables(), "TMPDIR": self._scratch.name}

    @cached_property
    def _scratch(self) -> TemporaryDirectory[str]:
        """Goes with this process: the Kubernetes provider leaves kubeconfigs among its files."""
        return TemporaryDirectory(prefix="tw-")

    @contextlib.contextmanager
    def _tracked(self, name: str, planned: int | None, what: str) -> Iterator[Tracker]:
        """Show progress while Pulumi works, its warnings afterwards, and a failure as an error."""
        tracker = Tracker(name, planned)
        try:
            with shown(tracker, self._console), patient(self._console), _readable(name, what):
                yield tracker
        finally:
            for warning in dict.fromkeys(tracker.warnings):
                self._console.print(f"{name}: warning: {warning}", highlight=False, markup=False)

    def _options(self) -> auto.LocalWorkspaceOptions:
        return auto.LocalWorkspaceOptions(
            env_vars=self._variables_here(),
            secrets_provider=self.backend.secrets_provider,
            pulumi_home=str(self._home),
        )

    def _ready(self, name: str) -> auto.Stack:
        """The stack, with nothing under way and nothing left open by an update that was cut off.

        What a cut-off update was just creating is forgotten here and adopted by the next one:
        names are fixed, and server-side apply takes over what it finds under them. AWS takes
        nothing over, so there people must look.
        """
        stack = self.open(name)
        self._wait_for_others(name)
        if pending := self.backend.deployment(name).get("pending_operations"):
            refuse_unknown_in_aws(name, pending)
            self._console.print(f"{name}: an update was cut off; looking at what it left")
            with self._tracked(name, None, "refresh") as tracker:
                stack.refresh(on_event=tracker, color="never", clear_pending_creates=True)
        return stack

    def _wait_for_others(self, name: str) -> None:
        """Wait for a running update of the stack; clear what a killed one left behind."""
        deadline = time.monotonic() + UPDATE_WAIT_SECONDS
        while locks := self.backend.locks(name):
            running = [lock for lock in locks if lock.is_running()]
            if not running:
                self._console.print(f"{name}: an update was cut off; clearing its lock")
                self.pulumi("cancel", "--yes", "--stack", name)
                return
            if time.monotonic() > deadline:
                raise OperationError(
                    f"update of {name}",
                    reason=f"{running[0]} is updating it",
                    remedy=f"wait for it, or end it with `pulumi cancel --stack {name}`",
                )
            self._console.print(f"{name}: {running[0]} is updating it; waiting")
            time.sleep(2)


def refuse_unknown_in_aws(stack: str, pending: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to forget what may exist in AWS: the next update would make a second one.

    Raises:
        OperationError: a pending operation was creating something there.
    """
    begun = [
        str(each["resource"]["urn"]).rpartition("::")[2]
        for each in pending
        if each["type"] == "creating" and str(each["resource"]["type"]).startswith("aws:")
    ]
    if begun:
        environment = split_stack(stack)[0]
        raise OperationError(
            f"update of {stack}",
            reason=f"an earlier one was cut off while it made {', '.join(begun)}",
            remedy=f"`tokenworks aws import-plan {environment}` says what of it exists; import "
            f"that, then run `pulumi refresh --clear-pending-creates --stack {stack}`",
        )


@contextlib.contextmanager
def patient(console: Console) -> Iterator[None]:
    """Let Ctrl-C end Pulumi and not us, so that it finishes and writes down what it has begun.

    The terminal tells Pulumi as well, which then begins nothing new; if we left, it would lose
    where it writes to and be killed in the middle. A second Ctrl-C ends it at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def wait(_number: int, _frame: FrameType | None) -> None:
        console.print("waiting until Pulumi has finished what it began; again ends it at once")

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _readable(stack: str, what: str) -> Iterator[None]:
    """Turn the Automation API's report of a failed command into what people need of it."""
    try:
        yield
    except auto.CommandError as error:
        raise OperationError(
            f"{what} of {stack}",
            reason=f"\n{diagnostics(str(error))}",
            remedy="correct what is named above and run it again; by hand: "
            f"pulumi {_BY_HAND[what]} --stack {stack}",
        ) from error


def diagnostics(report: str) -> str:
    """The parts of Pulumi's output that say what went wrong, without progress and table."""
    parts = _SECTION.split(report)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    told = [sections.get("Diagnostics", "")]
    if "Policies" in sections:
        told.append(f"Policies:\n{sections['Policies']}")
    return "\n".join(text.strip("\n") for text in told if text) or parts[0].strip("\n")


_SECTION = re.compile(r"^(Diagnostics|Policies|Outputs|Resources|Duration):[^\n]*\n?", re.MULTILINE)
_BY_HAND = {
    "preview": "preview",
    "update": "up",
    "destroy": "destroy",
    "refresh": "refresh",
    "selection": "stack select",
}
