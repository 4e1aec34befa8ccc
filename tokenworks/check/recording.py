"""What a recorded program did, in plain data; reading it needs no Pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.resources import Body, Value


@dataclass(frozen=True, kw_only=True)
class RecordedOptions:
    """What a registration asks of the engine, apart from what is ignored.

    ``depends_on`` are URNs: whatever must exist first, by an option or by an input, and is kept
    until this is gone. A provider is named by its URN. A change of ``replacement_trigger`` alone
    replaces the resource.
    """

    depends_on: frozenset[str] = frozenset()
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    replace_on_changes: tuple[str, ...] = ()
    replacement_trigger: Value = None
    deleted_with: str = ""
    provider: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedResource:
    """One registration: inputs as on the wire, in plain values, UNKNOWN where not known.

    ``parent`` is a URN, empty for a child of the stack itself; ``secrets`` are the key paths of
    secret inputs; ``known_as`` are the id and the ARN that the mocked provider answered.
    """

    type: str
    name: str
    inputs: Body
    parent: str
    urn: str
    custom: bool
    ignore_changes: tuple[str, ...] = ()
    known_as: frozenset[str] = frozenset()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    options: RecordedOptions = RecordedOptions()


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One call of a provider's function, with its arguments as on the wire."""

    token: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Everything that a program registered, called and exported, in the order of registration."""

    resources: tuple[RecordedResource, ...]
    calls: tuple[RecordedCall, ...]
    outputs: Mapping[str, object]
