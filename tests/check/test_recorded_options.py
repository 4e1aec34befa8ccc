"""What a recorded registration asks of the engine, beside its inputs."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pytest
from pulumi_aws import ec2, kms

from tokenworks.check.mocks import record, record_run
from tokenworks.check.recording import RecordedOptions, RecordedResource
from tokenworks.errors import OperationError


class Group(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("test:index:Group", name, {}, opts)
        for part in ("one", "two"):
            kms.Key(f"{name}-{part}", opts=pulumi.ResourceOptions(parent=self))


def recorded(program: object) -> dict[str, RecordedResource]:
    assert callable(program)
    return {one.name: one for one in record(program, "p", "s")}


def names(one: RecordedResource) -> set[str]:
    return {urn.rpartition("::")[2] for urn in one.options.depends_on}


def test_who_waits_for_a_component_waits_for_everything_in_it() -> None:
    def program() -> None:
        ec2.Vpc("later", opts=pulumi.ResourceOptions(depends_on=[Group("group")]))

    assert {"group-one", "group-two"} <= names(recorded(program)["later"])


def test_an_input_of_another_is_an_edge_like_an_option() -> None:
    def program() -> None:
        ec2.Subnet("inside", vpc_id=ec2.Vpc("net").id)

    assert names(recorded(program)["inside"]) == {"net"}


def test_what_a_component_waits_for_stands_on_the_component_alone() -> None:
    """So that who needs an edge in the state gives it to the resource itself."""

    def program() -> None:
        first = ec2.Vpc("first")
        Group("group", pulumi.ResourceOptions(depends_on=[first]))

    found = recorded(program)
    assert names(found["group"]) == {"first"}
    assert not names(found["group-one"])


def test_guards_are_recorded_as_they_are_asked_for() -> None:
    def program() -> None:
        kms.Key(
            "guarded",
            opts=pulumi.ResourceOptions(
                protect=True,
                retain_on_delete=True,
                delete_before_replace=True,
                replace_on_changes=["policy"],
                replacement_trigger="a",
            ),
        )
        kms.Key("plain")

    found = recorded(program)
    guarded, plain = found["guarded"].options, found["plain"].options
    assert guarded.protect
    assert guarded.retain_on_delete
    assert guarded.delete_before_replace
    assert guarded.replace_on_changes == ("policy",)
    assert guarded.replacement_trigger == "a"
    assert replace(plain, provider="") == RecordedOptions()


def test_a_stacks_last_outputs_are_those_that_are_given() -> None:
    found: list[object] = []

    def program() -> None:
        answered = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": "o/p/mine"})
        found.append(answered.value["outputs"])

    record_run(program, "p", "s", stacks={"mine": {"built": ["a"]}})
    assert found == [{"built": ["a"]}]
    with pytest.raises(OperationError, match="o/p/mine"):
        record_run(program, "p", "s")
