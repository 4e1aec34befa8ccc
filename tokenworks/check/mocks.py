"""What a Pulumi program registers, without engine, provider or cloud.

``record`` runs a program function in this process and returns its resources; ``record_run`` also
returns its calls and its stack outputs, which the next program's stack references may need. Each
run has a thread, an event loop and a context of its own, so that nothing of one run, or of the
caller's, is seen by another.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import pulumi
from google.protobuf import json_format  # type: ignore[import-untyped]
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from pulumi.runtime.settings import get_root_resource, reset_options
from pulumi.runtime.stack import Stack, run_pulumi_func
from ruamel.yaml import YAML

from policy.resources import Resource
from tokenworks.check.calls import DECODE_YAML_CALL, RENDER_CALL
from tokenworks.check.provider_answers import answer, answer_call
from tokenworks.check.recording import (
    RecordedCall,
    RecordedOptions,
    RecordedResource,
    Recording,
)
from tokenworks.errors import OperationError

_STACK: Final = "pulumi:pulumi:Stack"
_STACK_REFERENCE: Final = "pulumi:pulumi:StackReference"
_READ_OUTPUTS: Final = "pulumi:pulumi:readStackOutputs"
_RENDERS: Final = frozenset({RENDER_CALL, "kubernetes:kustomize:directory"})
# A dynamic provider travels as pickled code among its resource's inputs.
_PICKLED_PROVIDER: Final = "__provider"


def record(
    program: Callable[[], None],
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> list[RecordedResource]:
    """Return the resources that a program registers; see ``record_run`` for the arguments."""
    return list(record_run(program, project, stack, config, secrets).resources)


def record_run(
    program: Callable[[], None],
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    *,
    stacks: Mapping[str, Mapping[str, object]] | None = None,
    calls: Mapping[str, Mapping[str, object]] | None = None,
) -> Recording:
    """Run a program function and return what it registered, called and exported.

    ``config`` and ``secrets`` are stack configuration by full key (``project:key``). ``stacks``
    are the outputs of other stacks by name, for stack references; ``calls`` are answers to
    provider functions by token. Whatever the program raises is raised here; a reference or call
    without an answer is an OperationError that names it.
    """
    monitor = _Recorder(_Answers(stacks=stacks or {}, calls=calls or {}))
    run = _Run(program, project, stack, dict(config or {}), dict(secrets or {}), monitor)
    with ThreadPoolExecutor(max_workers=1) as thread:
        outputs = thread.submit(contextvars.Context().run, run.to_the_end).result()
    return Recording(
        resources=tuple(monitor.recorded),
        calls=tuple(monitor.answers.recorded_calls),
        outputs=outputs,
    )


@dataclass(frozen=True)
class _Run:
    program: Callable[[], None]
    project: str
    stack: str
    config: dict[str, str]
    secrets: dict[str, str]
    monitor: _Recorder

    def to_the_end(self) -> dict[str, object]:
        """Run the program on a new event loop and return its stack outputs."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        # What fails is raised to the caller. Tasks that it leaves behind would say so once more,
        # whenever they are collected; the language host silences them as well.
        loop.set_exception_handler(lambda _loop, _context: None)
        # One worker, so that resources are registered in one order every time.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        try:
            return loop.run_until_complete(self._run())
        finally:
            loop.run_until_complete(loop.run_in_executor(None, _close_loop_of_thread))
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def _run(self) -> dict[str, object]:
        # The SDK's settings have defaults that are shared by the whole process, the set of
        # outstanding outputs among them; this makes new ones, and set_mocks alone does not.
        reset_options(project=self.project, stack=self.stack, preview=False)
        pulumi.runtime.set_all_config({**self.config, **self.secrets}, list(self.secrets))
        pulumi.runtime.set_mocks(
            self.monitor.answers,
            project=self.project,
            stack=self.stack,
            preview=False,
            monitor=self.monitor,
        )
        root = get_root_resource()
        await run_pulumi_func(self.program)
        exported = root.outputs if isinstance(root, Stack) else {}
        return {
            name: await pulumi.Output.from_input(value).future() for name, value in exported.items()
        }


def _close_loop_of_thread() -> None:
    """Close the loop that the mock monitor opened in the worker's thread."""
    try:
        asyncio.get_event_loop().close()
    except RuntimeError:
        return  # the program registered nothing, and no loop was opened


def _options(request: Any) -> RecordedOptions:
    """Return what a registration asks of the engine."""
    return RecordedOptions(
        depends_on=frozenset(request.dependencies),
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        delete_before_replace=request.deleteBeforeReplace,
        replace_on_changes=tuple(request.replaceOnChanges),
        replacement_trigger=json_format.MessageToDict(request.replacement_trigger),
        deleted_with=request.deletedWith,
        # The wire adds the provider's id to its URN.
        provider=request.provider.rpartition("::")[0],
    )


class _Answers(Mocks):
    """Answers registrations and calls as the real providers would."""

    def __init__(
        self, *, stacks: Mapping[str, Mapping[str, object]], calls: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._stacks = stacks
        self._calls = calls
        self.recorded_calls: list[RecordedCall] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Return id and outputs of a resource, or those of the stack that a reference names."""
        if args.typ == _STACK_REFERENCE:
            return args.name, self._outputs_of_stack(str(args.inputs.get("name", args.name)))
        if not args.custom and not args.resource_id:
            return None, args.inputs  # a component has no provider
        id_, state = answer(args.typ, args.name, args.inputs)
        return args.resource_id or id_, state

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        """Return what a provider's function answers; charts and the like render to nothing."""
        self.recorded_calls.append(RecordedCall(token=args.token, arguments=args.args))
        if args.token == _READ_OUTPUTS:
            return self._outputs_of_stack(str(args.args["name"])), []
        if args.token in _RENDERS and args.token not in self._calls:
            return {"result": []}, []
        if args.token == DECODE_YAML_CALL:
            documents = YAML(typ="safe", pure=True).load_all(args.args["text"])
            return {"result": [document for document in documents if document]}, []
        given = self._calls.get(args.token)
        answered = answer_call(args.token, args.args) if given is None else dict(given)
        if answered is None:
            raise OperationError(
                f"call of {args.token}",
                reason="nothing here knows the answer",
                remedy="give record_run one in `calls`",
            )
        return answered, []

    def _outputs_of_stack(self, reference: str) -> dict[str, Any]:
        stack = reference.rpartition("/")[2]
        outputs = self._stacks.get(reference, self._stacks.get(stack))
        if outputs is None:
            raise OperationError(
                f"reference to the stack {reference}",
                reason="its outputs are not known",
                remedy="record that program first and give its outputs to record_run in `stacks`",
            )
        return {"name": reference, "outputs": dict(outputs), "secretOutputNames": []}


class _Recorder(MockMonitor):
    """The mock engine: it notes every registration before it is answered."""

    def __init__(self, answers: _Answers) -> None:
        super().__init__(answers)
        self.answers = answers
        self.recorded: list[RecordedResource] = []
        self._urns: set[str] = set()
        self._lock = threading.Lock()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  the monitor's protocol
        """Note one registration, refuse a second one of the same name, and answer it."""
        if request.type == _STACK:
            return super().RegisterResource(request)  # type: ignore[no-untyped-call]
        place = self._note(request)
        answered = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        known_as = {answered.id, json_format.MessageToDict(answered.object).get("arn")}
        with self._lock:
            names = frozenset(name for name in known_as if isinstance(name, str) and name)
            self.recorded[place] = replace(self.recorded[place], known_as=names)
        return answered

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Return the URN as the engine makes it; the mock's own puts the stack's type first."""
        types = parent.split("::")[2] if parent else _STACK
        chain = "" if types == _STACK else f"{types}$"
        place = f"{pulumi.get_stack()}::{pulumi.get_project()}"
        return f"urn:pulumi:{place}::{chain}{type_}::{name}"

    def _note(self, request: Any) -> int:
        """Record a registration as it comes, and return its place among them."""
        urn = self.make_urn(request.parent, request.type, request.name)
        raw = json_format.MessageToDict(request.object)
        raw.pop(_PICKLED_PROVIDER, None)
        read = Resource.of(request.type, request.name, raw, urn=urn)
        recorded = RecordedResource(
            type=request.type,
            name=request.name,
            inputs=read.properties,
            parent="" if f"::{_STACK}::" in request.parent else request.parent,
            urn=urn,
            custom=request.custom,
            ignore_changes=tuple(request.ignoreChanges),
            secrets=read.secrets,
            options=_options(request),
        )
        with self._lock:
            if urn in self._urns:
                raise OperationError(
                    f"{request.type} {request.name}",
                    reason="two resources have the same type, parent and name",
                    remedy="give each a name of its own",
                )
            self._urns.add(urn)
            self.recorded.append(recorded)
            return len(self.recorded) - 1
