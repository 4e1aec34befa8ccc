"""The rules inside a running program, so that a plain ``pulumi up`` is refused as well.

The guard is a *resource transform* (``register_resource_transform``) and not a stack
transformation (``register_stack_transformation``). A transformation sees what the constructor was
given: Python names, argument classes, outputs that nobody has resolved, and nothing of what a
component in another process creates. A transform is asked by the engine, with names as on the
wire and outputs resolved, for every resource that is registered, children of remote components
included. It costs one local call per resource, 1.4 ms each of 302 in a preview of 8.4 s.

At a preview every violation is shown at its resource, and the program fails when all resources
have been judged, so that one run shows the whole list. At an update the first violation stops
its own registration: nothing that breaks a rule is ever created.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi.runtime.settings
from pulumi.resource import DependencyResource
from pulumi.runtime.mocks import MockMonitor

from policy.resources import UNKNOWN, Resource, as_secret
from policy.rule import Finding, Rule, Verdict
from policy.rules import RULES
from policy.waivers import in_force
from tokenworks.check.calls import resource_of_call
from tokenworks.errors import TokenworksError

_REMEDY: Final = "correct them and run again; `tokenworks check` finds them without a cloud"
# What a transform raises reaches the program inside the text of an RPC error. These marks find
# the refusal in it again.
_START: Final = "<refused>"
_END: Final = "</refused>"


class RefusedError(TokenworksError):
    """A resource breaks a rule, and its registration stops here."""


def install_guard() -> None:
    """Judge every resource that the program registers from here on.

    Call it first in a program. Under ``pulumi.runtime.set_mocks`` no engine asks transforms, and
    recorded resources are judged as a whole (``tokenworks.check.judge.judge_recorded``), so there
    it does nothing.
    """
    if isinstance(pulumi.runtime.settings.get_monitor(), MockMonitor):
        return
    _read_refusals_cleanly()
    guard = _Guard(RULES)
    pulumi.runtime.register_resource_transform(guard.judge_resource)
    pulumi.runtime.register_invoke_transform(guard.judge_call)


class _Guard:
    """Judges what the engine asks about; at a preview it remembers that something was refused."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._will_fail = False

    async def judge_resource(self, args: pulumi.ResourceTransformArgs) -> None:
        """Judge one resource as it is registered; the resource itself is never changed."""
        rules = [rule for rule in self._rules if rule.applies(args.type_)]
        if rules:
            raw = {key: await _raw(value) for key, value in args.props.items()}
            resource = Resource.of(
                args.type_,
                args.name,
                raw,
                urn=await _urn(args),
                ignored=tuple(args.opts.ignore_changes or ()),
                parent=await _parent(args),
            )
            self._report(rules, resource)

    async def judge_call(self, args: pulumi.InvokeTransformArgs) -> None:
        """Judge one call of a provider's function by its arguments, before it is made."""
        raw = {key: await _raw(value) for key, value in args.args.items()}
        called = resource_of_call(args.token, raw)
        if called is not None:
            self._report(self._rules, called)

    def _report(self, rules: Sequence[Rule], resource: Resource) -> None:
        found = [in_force().applied(f) for rule in rules for f in rule.judge(resource)]
        preview = pulumi.runtime.is_dry_run()
        at = DependencyResource(resource.urn) if resource.urn else None
        refused = []
        for finding in found:
            tolerated = _why_tolerated(finding, preview=preview)
            if tolerated is None:
                refused.append(finding)
            else:
                pulumi.log.warn(f"{finding}{tolerated}", at)
        if refused and not preview:
            raise RefusedError(f"{_START}{_lines(refused)}{_END}")
        for finding in refused:
            pulumi.log.error(str(finding), at)
        if refused and not self._will_fail:
            self._will_fail = True
            # An output that fails is waited for after every registration; it ends the program
            # with one sentence and no traceback.
            _ending: pulumi.Output[str] = pulumi.Output.from_input(_fail())


def _why_tolerated(finding: Finding, *, preview: bool) -> str | None:
    """Return what to add to a finding that refuses nothing here, or None for one that does."""
    if finding.waived:
        return f" It is {finding.waived}."
    if finding.verdict is Verdict.WARN:
        return ""
    return " The update judges it again." if finding.tolerable_at_preview and preview else None


async def _fail() -> str:
    raise pulumi.RunError(f"The rules named above refuse this program; {_REMEDY}.")


def _lines(findings: Sequence[Finding]) -> str:
    return "\n".join(str(finding) for finding in findings)


async def _urn(args: pulumi.ResourceTransformArgs) -> str:
    """Return the URN that the resource will have, by which the engine shows messages at it."""
    parent = await _parent(args)
    types = parent.split("::")[2] if parent else ""
    chain = "" if types in {"", "pulumi:pulumi:Stack"} else f"{types}$"
    place = f"{pulumi.get_stack()}::{pulumi.get_project()}"
    return f"urn:pulumi:{place}::{chain}{args.type_}::{args.name}"


async def _parent(args: pulumi.ResourceTransformArgs) -> str:
    return (await args.opts.parent.urn.future() or "") if args.opts.parent else ""


async def _raw(value: object) -> object:
    """Return a value with its outputs resolved, secrets marked and unknown ones said to be so."""
    if isinstance(value, pulumi.Output):
        if not await value.is_known():
            return UNKNOWN
        inner = await _raw(await value.future(with_unknowns=True))
        return as_secret(inner) if await value.is_secret() else inner
    if isinstance(value, Mapping):
        return {key: await _raw(child) for key, child in value.items()}
    if isinstance(value, list):
        return [await _raw(child) for child in value]
    return value


def _read_refusals_cleanly() -> None:
    """Make the SDK report a refusal as an error of the user's program, without its traceback.

    The SDK turns the text of a failed registration into a plain Exception, and the language host
    prints those with the traceback of the SDK. It prints a RunError as one message. If a later
    SDK moves this function, refusals still refuse; they only read worse, and the test of the real
    engine says so.
    """
    if getattr(pulumi.runtime.settings.grpc_error_to_exception, "reads_refusals", False):
        return
    original = pulumi.runtime.settings.grpc_error_to_exception

    def translate(exn: Any) -> Exception:
        _, mark, rest = str(exn.details() or "").partition(_START)
        refusal = rest.partition(_END)[0]
        return pulumi.RunError(f"{refusal}\nNot created; {_REMEDY}.") if mark else original(exn)

    translate.reads_refusals = True  # type: ignore[attr-defined]
    for module in ("pulumi.runtime.settings", "pulumi.runtime.invoke"):
        setattr(importlib.import_module(module), original.__name__, translate)
