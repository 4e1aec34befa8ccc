"""Recorded programs as resources, with the place in the environment that each comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policy.resources import Resource
from tokenworks.check.calls import resource_of_call
from tokenworks.check.places import Places
from tokenworks.check.recording import RecordedResource, Recording

_NOWHERE = Places(models={}, node_pools={}, sections={})


def resources_of(
    recordings: Iterable[Recording], origin: str = "", places: Places = _NOWHERE
) -> Iterator[Resource]:
    """Yield every resource that programs registered, and every call that they made.

    ``origin`` is the environment's file, and ``places`` says on which of its lines what stands.
    """
    for recording in recordings:
        for recorded in recording.resources:
            line = places.line_of(recorded.name, recorded.inputs, recorded.parent)
            yield replace(_resource(recorded), origin=origin, line=line)
        for call in recording.calls:
            called = resource_of_call(call.token, call.arguments)
            if called is not None:
                yield replace(called, origin=origin)


def _resource(recorded: RecordedResource) -> Resource:
    return Resource(
        type=recorded.type,
        name=recorded.name,
        properties=recorded.inputs,
        urn=recorded.urn,
        secrets=recorded.secrets,
        ignored=recorded.ignore_changes,
        parent=recorded.parent,
        known_as=recorded.known_as,
    )
