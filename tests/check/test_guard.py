"""The guard's own decisions; ``tests/policy/test_real_engine.py`` runs it in the real engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pulumi
import pulumi.runtime.settings
import pytest
from pulumi.resource import DependencyResource
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from policy.rules import RULES
from tokenworks.check import guard
from tokenworks.check.guard import RefusedError

SERVICE = "kubernetes:core/v1:Service"
BAD = {"spec": {"type": "LoadBalancer", "selector": {"tokenworks.dev/role": "engine"}}}


class Silent(Mocks):
    """Mocks that are never asked."""

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(args.token)

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        raise AssertionError(args.name)


def run(judge: Callable[[guard._Guard], Awaitable[None]], *, preview: bool) -> list[str]:
    """Run a guard's decision on a loop of its own; return what it logged, then what it raised."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("engine-of-the-test")
    logger.handlers = [handler]

    async def main() -> None:
        pulumi.runtime.settings.reset_options(project="p", stack="s")
        pulumi.runtime.set_mocks(Silent(), "p", "s", preview=preview, logger=logger)
        await judge(guard._Guard(RULES))
        await asyncio.sleep(0.01)  # messages at a URN are logged by tasks of their own
        while pulumi.runtime.settings.SETTINGS.outputs:
            await pulumi.runtime.settings.SETTINGS.outputs.pop()

    try:
        asyncio.run(main())
    except (pulumi.RunError, RefusedError) as error:
        logged.append(f"raised: {error}")
    return logged


def args(properties: dict[str, Any], type_: str = SERVICE) -> pulumi.ResourceTransformArgs:
    return pulumi.ResourceTransformArgs(True, type_, "llama", properties, pulumi.ResourceOptions())


def test_at_a_preview_every_violation_is_logged_and_the_program_fails_in_the_end() -> None:
    async def judge(one: guard._Guard) -> None:
        await one.judge_resource(args(BAD))
        await one.judge_resource(args(BAD))

    first, second, end = run(judge, preview=True)
    assert first == second
    assert first.startswith(f"{SERVICE} llama: only-the-gateway-has-a-load-balancer: spec.type: ")
    assert end.startswith("raised: The rules named above refuse this program; ")


def test_at_an_update_the_first_violation_stops_its_own_registration() -> None:
    (raised,) = run(lambda one: one.judge_resource(args(BAD)), preview=False)
    assert "only-the-gateway-has-a-load-balancer" in raised


@pytest.mark.parametrize("preview", [True, False])
def test_a_good_resource_passes_in_silence(preview: bool) -> None:
    good = {"spec": {"type": "ClusterIP", "selector": {"tokenworks.dev/role": "engine"}}}
    assert run(lambda one: one.judge_resource(args(good)), preview=preview) == []


def test_outputs_are_judged_by_what_they_hold_and_secrets_are_not_shown() -> None:
    async def judge(one: guard._Guard) -> None:
        type_ = pulumi.Output.secret("LoadBalancer")
        await one.judge_resource(args({"spec": {"type": type_, "selector": {"app": "vllm"}}}))

    first, *_ = run(judge, preview=True)
    assert "spec.type: [secret] would publish an engine" in first
    assert "LoadBalancer" not in first


def test_a_pin_that_is_not_known_warns_at_a_preview() -> None:
    async def judge(one: guard._Guard) -> None:
        image = pulumi.Output.from_input(pulumi.output.UNKNOWN)
        pod = {"spec": {"containers": [{"image": image}]}}
        await one.judge_resource(args(pod, "kubernetes:core/v1:Pod"))

    logged = run(judge, preview=True)
    (warned,) = (line for line in logged if "images-are-pinned-by-digest" in line)
    assert "spec.containers[0].image: is not known" in warned
    assert warned.endswith("The update judges it again.")


def test_a_chart_that_a_call_renders_is_judged_by_the_calls_options() -> None:
    options = {"jsonOpts": '{"chart": "keda", "version": "^2"}'}
    call = pulumi.InvokeTransformArgs("kubernetes:helm:template", options, pulumi.InvokeOptions())
    (raised,) = run(lambda one: one.judge_call(call), preview=False)
    assert "kubernetes:helm.sh/v3:Chart keda: charts-have-one-exact-version: version: ^2" in raised


def called(token: str, arguments: dict[str, Any], *, preview: bool) -> list[str]:
    call = pulumi.InvokeTransformArgs(token, arguments, pulumi.InvokeOptions())
    return run(lambda one: one.judge_call(call), preview=preview)


def test_a_call_for_the_newest_image_is_stopped_before_it_is_made() -> None:
    (raised,) = called("aws:ec2/getAmi:getAmi", {"mostRecent": True}, preview=False)
    assert "aws:ec2/getAmi:getAmi call: node-images-are-one-release: mostRecent: True" in raised


def test_a_call_whose_arguments_are_not_known_warns_at_a_preview() -> None:
    async def judge(one: guard._Guard) -> None:
        unknown = {"mostRecent": pulumi.Output.from_input(pulumi.output.UNKNOWN)}
        options = pulumi.InvokeOptions()
        await one.judge_call(pulumi.InvokeTransformArgs("aws:ec2/getAmi:getAmi", unknown, options))

    (warned,) = run(judge, preview=True)
    assert warned.endswith("The update judges it again.")
    assert "raised" not in warned


@pytest.mark.parametrize(
    ("token", "arguments"),
    [
        ("aws:index/getRegion:getRegion", {}),
        ("aws:ec2/getAmi:getAmi", {"filters": [{"name": "image-id", "values": ["ami-1"]}]}),
        ("kubernetes:yaml:decode", {"text": "kind: Service\nspec: {type: LoadBalancer}"}),
    ],
)
def test_a_call_that_pins_what_it_asks_for_passes(token: str, arguments: dict[str, Any]) -> None:
    assert called(token, arguments, preview=False) == []


def test_a_guarded_change_that_is_ignored_is_refused() -> None:
    asked = args({"spec": {"type": "ClusterIP"}})
    asked.opts.ignore_changes = ["spec.type"]
    (raised,) = run(lambda one: one.judge_resource(asked), preview=False)
    assert "guarded-changes-are-never-ignored: ignoreChanges: spec.type hides" in raised


class RpcError:
    """What the SDK reads of an error of gRPC."""

    def __init__(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        return self._details

    def code(self) -> None:
        return None


def read(details: str) -> Exception:
    guard._read_refusals_cleanly()
    guard._read_refusals_cleanly()
    return pulumi.runtime.settings.grpc_error_to_exception(RpcError(details))


def test_a_refusal_in_an_rpc_error_reads_as_the_users_error() -> None:
    error = read("invoke transform: rpc error: <refused>because</refused>:\n  File guard.py")
    assert isinstance(error, pulumi.RunError)
    assert str(error).startswith("because\nNot created; ")


def test_any_other_rpc_error_reads_as_before() -> None:
    error = read("the provider is gone")
    assert type(error) is Exception
    assert str(error) == "the provider is gone"


@pytest.mark.parametrize(
    ("parent", "urn"),
    [
        (None, f"urn:pulumi:s::p::{SERVICE}::llama"),
        ("urn:pulumi:s::p::pulumi:pulumi:Stack::p-s", f"urn:pulumi:s::p::{SERVICE}::llama"),
        ("urn:pulumi:s::p::a:b:C$d:e:F::x", f"urn:pulumi:s::p::a:b:C$d:e:F${SERVICE}::llama"),
    ],
)
def test_a_message_stands_at_the_urn_that_the_resource_will_have(
    parent: str | None, urn: str
) -> None:
    seen: list[str] = []

    async def judge(_one: guard._Guard) -> None:
        asked = args(BAD)
        asked.opts.parent = DependencyResource(parent) if parent else None
        seen.append(await guard._urn(asked))

    run(judge, preview=True)
    assert seen == [urn]
