"""One plain shape for whatever is judged: pack proxies, wire values, recordings and manifests.

A policy pack hands out proxies that raise on unknown values and numbers that are always floats;
the wire has signatures for secrets and outputs; manifests are plain. ``Resource.of`` reads each
of them once, so that a rule sees ordinary dictionaries, tuples and scalars, and ``UNKNOWN`` where
a leaf is not known. One unknown leaf hides nothing beside it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeGuard, TypeVar


class Unknown(enum.Enum):
    """The type of ``UNKNOWN``."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN

Value: TypeAlias = (
    "bool | int | float | str | Unknown | Mapping[str, Value] | tuple[Value, ...] | None"
)
Body: TypeAlias = Mapping[str, Value]
_T = TypeVar("_T")

# What the wire and the pack SDK send for "not known during preview": one word per type of value
# (pulumi_policy/proxy.py; pulumi/runtime/rpc.py uses the string one for every type).
_UNKNOWN_SENTINELS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
# Signatures of typed values on the wire (pulumi/sdk/go/common/resource/sig/sig.go).
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a type's signature
_OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_REFERENCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def key_path(*keys: str | int) -> str:
    """Return keys as people write them: ``spec.ports[0].targetPort``."""
    path = ""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif _PLAIN_KEY.fullmatch(key):
            path += f".{key}" if path else key
        else:
            path += f'["{key}"]'
    return path


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What a rule judges: a type token or kind, a name, and properties without surprises.

    ``secrets`` are the key paths below which a value is secret and never printed. A pack is not
    told which values are secret, so there it is empty, and rules print only values of a kind that
    they have recognised (an image, a port, an address range, a version). ``origin`` says where
    the resource was read from, when that is a file, and ``line`` where it begins there.
    ``ignored`` are the key paths of the program's ``ignoreChanges``, ``parent`` is the URN of the
    component that the resource belongs to; both are empty where nobody says. ``known_as`` are the
    ids and ARNs that others refer to the resource by, as far as a provider, or a mock, gave any.
    """

    type: str
    name: str
    properties: Body
    urn: str = ""
    origin: str = ""
    line: int | None = None
    ignored: tuple[str, ...] = ()
    parent: str = ""
    known_as: frozenset[str] = frozenset()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def of(
        cls,
        type_: str,
        name: str,
        raw: Mapping[str, object],
        *,
        urn: str = "",
        origin: str = "",
        line: int | None = None,
        ignored: tuple[str, ...] = (),
        parent: str = "",
    ) -> Resource:
        """Return the resource in plain values, whatever library the raw ones come from."""
        reader = _Reader()
        return cls(
            type=type_,
            name=name,
            properties=reader.mapping(raw),
            urn=urn,
            origin=origin,
            line=line,
            ignored=ignored,
            parent=parent,
            secrets=frozenset(reader.secrets),
        )

    def is_secret(self, path: str) -> bool:
        """Return whether the value at a key path is secret or lies within a secret."""
        return any(
            path == secret or path.startswith((f"{secret}.", f"{secret}["))
            for secret in self.secrets
        )


class _Reader:
    """Reads raw values into plain ones and remembers where secrets are."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._trail: list[str | int] = []

    def mapping(self, raw: Mapping[str, object]) -> Body:
        return {str(key): self._child(raw, str(key)) for key in raw}

    def _child(self, container: Mapping[str, object] | Sequence[object], key: str | int) -> Value:
        self._trail.append(key)
        try:
            return self._value(_read(container, key))
        finally:
            self._trail.pop()

    def _value(self, raw: object) -> Value:
        if raw is None or isinstance(raw, bool | int):
            return raw
        if isinstance(raw, str):
            return UNKNOWN if raw in _UNKNOWN_SENTINELS else raw
        if isinstance(raw, float):
            return int(raw) if raw.is_integer() else raw
        if isinstance(raw, Mapping):
            return self._typed(raw) if _SIGNATURE in raw else self.mapping(raw)
        if isinstance(raw, Sequence) and not isinstance(raw, bytes):
            return tuple(self._child(raw, index) for index in range(len(raw)))
        return UNKNOWN  # an unresolved output, an asset: nothing that a rule may trust

    def _typed(self, raw: Mapping[str, object]) -> Value:
        signature = raw[_SIGNATURE]
        if signature == _SECRET or (signature == _OUTPUT and raw.get("secret") is True):
            self.secrets.add(key_path(*self._trail))
        if signature in {_SECRET, _OUTPUT}:
            return self._value(raw["value"]) if "value" in raw else UNKNOWN
        if signature == _REFERENCE:
            return self._value(raw.get("id") or raw.get("urn"))
        return UNKNOWN


def _read(container: Mapping[str, object] | Sequence[object], key: str | int) -> object:
    """Read one child; the pack SDK's proxies raise where the child is unknown."""
    try:
        return container[key]  # type: ignore[call-overload, index, unused-ignore]
    except Exception as error:
        # The class is not exported (pulumi_policy.proxy), and plain checks must not load the SDK.
        if type(error).__name__ == "UnknownValueError":
            return UNKNOWN
        raise


def as_secret(value: object) -> Mapping[str, object]:
    """Return a raw value marked as secret, in the wire's own form, for ``Resource.of``."""
    return {_SIGNATURE: _SECRET, "value": value}


def is_body(value: Value) -> TypeGuard[Body]:
    """Return whether a value is an object with keys."""
    # Nearly all mappings are dicts, and nearly all else is text: asking the abstract class is slow.
    return isinstance(value, dict) or (
        not isinstance(value, str | tuple | int | None) and isinstance(value, Mapping)
    )


def once(owner: object, name: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` made when it was first asked for this owner, which never changes.

    Many rules ask the same things of one resource.
    """
    kept = vars(owner)
    if name not in kept:
        kept[name] = make()
    made: _T = kept[name]
    return made


def peek(value: Value, *keys: str | int) -> Value:
    """Return what lies below ``keys``: None where absent, UNKNOWN where any step is unknown."""
    for key in keys:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(key, int):
            value = value[key] if isinstance(value, tuple) and key < len(value) else None
        else:
            value = value.get(key) if is_body(value) else None
    return value


def elements(value: Value) -> Iterator[tuple[int, Value]]:
    """Yield index and element of a list, and nothing for anything else, UNKNOWN included."""
    if isinstance(value, tuple):
        yield from enumerate(value)


def number(value: Value) -> int | None:
    """Return a whole number that may have been written as text (``"8000"``), or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    return None
