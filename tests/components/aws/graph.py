"""The graph of an environment's resources as text that people review.

Each line is one resource below its component: name, type, options, and after what it is made, where
``@cluster`` is what that program exported. An edge that follows from two others is left out. This
writes it anew: ``python -m tests.components.aws.graph > tests/cases/aws/graph.txt``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tokenworks.check.recording import RecordedResource, Recording
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = "example-aws"
STACK_REFERENCE = "::pulumi:pulumi:StackReference::"


def edges(resources: Sequence[RecordedResource]) -> dict[str, frozenset[str]]:
    """What each resource waits for, directly or through others, by URN."""
    whole: dict[str, frozenset[str]] = {}
    for one in resources:  # in the order of registration, so what it needs is there
        direct = one.options.depends_on
        whole[one.urn] = direct.union(*(whole.get(urn, frozenset()) for urn in direct))
    return whole


def nearest(resources: Sequence[RecordedResource]) -> dict[str, list[str]]:
    """What each resource waits for, without what follows from that, by short names."""
    whole = edges(resources)
    found = {}
    for one in resources:
        direct = one.options.depends_on
        implied = frozenset[str]().union(*(whole.get(urn, frozenset()) for urn in direct))
        found[one.urn] = sorted(map(_short, direct - implied))
    return found


def _short(urn: str) -> str:
    """The name in a URN; what another program exported is called by that program."""
    name = urn.rpartition("::")[2]
    return f"@{name.rpartition('-')[2]}" if STACK_REFERENCE in urn else name


def lines(program: str, recording: Recording) -> Iterator[str]:
    """The resources of one program, each below its parent."""
    yield f"# {program}: {len(recording.resources)} resources"
    children: dict[str, list[RecordedResource]] = {}
    for one in recording.resources:
        children.setdefault(one.parent, []).append(one)
    yield from _below("", children, nearest(recording.resources), "")


def _below(
    parent: str,
    children: Mapping[str, Sequence[RecordedResource]],
    after: Mapping[str, Sequence[str]],
    indent: str,
) -> Iterator[str]:
    for one in sorted(children.get(parent, ()), key=lambda one: (one.name, one.type)):
        follows = f" after {', '.join(after[one.urn])}" if after[one.urn] else ""
        yield f"{indent}{one.name} {one.type}{_options(one)}{follows}"
        yield from _below(one.urn, children, after, f"{indent}  ")


def _options(one: RecordedResource) -> str:
    options = one.options
    said = [
        *(["protected"] if options.protect else []),
        *(["kept when deleted"] if options.retain_on_delete else []),
        *(["deleted before replaced"] if options.delete_before_replace else []),
        *(f"ignores {path}" for path in one.ignore_changes),
        *(f"replaced with {path}" for path in options.replace_on_changes),
        *(["replaced with its trigger"] if options.replacement_trigger is not None else []),
    ]
    return f" [{', '.join(said)}]" if said else ""


def graph(recordings: Mapping[str, Recording]) -> str:
    """The graph of every program."""
    parts = ("\n".join(lines(program, one)) for program, one in recordings.items())
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the example's graph."""
    workspace = Workspace(ROOT)
    print(graph(record_environment(workspace, plan_environment(workspace, ENVIRONMENT))), end="")


if __name__ == "__main__":
    main()
