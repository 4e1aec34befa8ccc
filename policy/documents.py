"""YAML and JSON text as plain documents: bounded, strict, and with the line of every key.

Whoever wrote a text may have meant harm by it, and whoever applies it may read it otherwise. So
values are read as Kubernetes reads them (YAML 1.1, ``0o17500`` and ``8e3`` are numbers, dates are
text), a key that is written twice is refused, and aliases, nesting and size have bounds. A
document that is refused hides none of the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

MOST_VALUES: Final = 1_000_000
"""Values of one text with its aliases written out; 800 Deployments have about 40,000."""
DEEPEST: Final = 100
"""Levels of nesting; the deepest schemas of public custom resources have about 40."""

_TAG: Final = "tag:yaml.org,2002:"
_INT, _FLOAT, _BOOL, _NULL = (f"{_TAG}{name}" for name in ("int", "float", "bool", "null"))
_MERGE: Final = f"{_TAG}merge"
# Dates, ``=`` and ``!!binary`` are text to Kubernetes, whose values are those of JSON.
_TEXT: Final = frozenset(f"{_TAG}{name}" for name in ("str", "timestamp", "value", "binary"))
_CONTAINERS: Final = frozenset({f"{_TAG}seq", f"{_TAG}map"})
_TRUE: Final = frozenset({"yes", "true", "on"})
_KEY: Final = re.compile(r'\[(\d+)\]|\["([^"]*)"\]|([A-Za-z_][A-Za-z0-9_-]*)')


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """Why a text, or one document of it, cannot be judged, and what to do about it."""

    reason: str
    remedy: str
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document: its plain data, the line where it begins, and its own text."""

    data: Any
    line: int
    text: str = field(repr=False)

    def line_of(self, path: str) -> int:
        """Return the line of a key path, or of its nearest parent that is written here.

        The text is read once more for that, since only a document with findings needs lines.
        """
        if not path:
            return self.line
        node, line = self._root, self.line
        for index, quoted, plain in _KEY.findall(path):
            child = _child(node, int(index) if index else quoted or plain)
            if child is None:
                break
            node, marked = child
            line = self.line + marked.start_mark.line
        return line

    @cached_property
    def _root(self) -> Node | None:
        try:
            return _Loader(self.text).get_single_node()
        except yaml.YAMLError:
            return None  # tabs between the tokens of JSON, or a tag's prefix that was cut off


class _Loader(CParser, Resolver):
    """Composes nodes in C, and tells text from numbers as Kubernetes does."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Resolver.__init__(self)


# go-yaml, through which Kubernetes reads, takes these for numbers; PyYAML takes them for text.
_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?0o[0-7_]+$"), list("-+0"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


class _RefusedError(Exception):
    def __init__(self, reason: str, remedy: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.flaw = Flaw(reason=reason, remedy=remedy, line=line)


def read_documents(text: str) -> Iterator[Document | Flaw]:
    """Yield each document of a YAML or JSON text, or the flaw for which it cannot be judged.

    Empty documents are left out. After text that is not YAML at all nothing more can be read.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in {"{", "["}:
        whole = _read_json(text)
        if whole is not None:
            yield whole
            return
    yield from _read_yaml(text)


def _read_json(text: str) -> Document | Flaw | None:
    """Return the one JSON document, or None where only YAML can tell."""
    reader = _Json()
    try:
        data = json.loads(text, object_pairs_hook=reader.mapping)
        _bounded(data)
    except _RefusedError as error:
        return error.flaw
    except RecursionError:
        return _too_deep(None)
    except ValueError:
        return None
    line = text[: len(text) - len(text.lstrip())].count("\n") + 1
    return Document(data=data, line=line, text=text.lstrip())


class _Json:
    """What ``json`` asks while it reads."""

    def mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _twice(twice, None)
        return data


def _bounded(data: Any) -> None:
    """Refuse data that nests too deep or holds too much, without recursion."""
    count, level = 0, [data]
    for _ in range(DEEPEST + 1):
        count += len(level)
        if count > MOST_VALUES:
            raise _too_much(None)
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise _RefusedError(*_DEEP)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _read_yaml(text: str) -> Iterator[Document | Flaw]:
    builder = _Builder()
    try:
        loader = _Loader(text)
        while loader.check_node():
            root = loader.get_node()
            assert root is not None  # noqa: S101  check_node says so
            try:
                data = builder.document(root)
            except _RefusedError as error:
                yield error.flaw
                if builder.exhausted:
                    return
                continue
            if data is not None:
                own = _own_text(text, root)
                yield Document(data=data, line=root.start_mark.line + 1, text=own)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(f"is not YAML ({error.context or ''} {error.problem or ''})".split())
        yield _not_yaml(reason.replace("( ", "("), mark.line + 1 if mark else None)
    except (yaml.YAMLError, UnicodeError) as error:
        yield _not_yaml(f"is not YAML ({' '.join(str(error).split())})", None)


def _not_yaml(reason: str, line: int | None) -> Flaw:
    return Flaw(
        reason=reason,
        remedy="correct it there",
        line=line,
    )


def _own_text(text: str, root: Node) -> str:
    start, end = root.start_mark, root.end_mark
    return " " * start.column + text[start.index : end.index]


class _Builder:
    """Turns composed nodes into plain data, and counts what aliases multiply."""

    def __init__(self) -> None:
        self._count = 0
        self._known: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    @property
    def exhausted(self) -> bool:
        """Return whether the text has held all the values that it may."""
        return self._count > MOST_VALUES

    def document(self, root: Node) -> Any:
        """Return the data of one document."""
        self._known.clear()
        self._open.clear()
        return self._value(root, 0)

    def _value(self, node: Node, depth: int) -> Any:
        if isinstance(node, ScalarNode):
            self._add(1, node)
            return _scalar(node)
        known = self._known.get(id(node))
        if known is not None:
            self._add(known[1], node)
            return known[0]
        if id(node) in self._open:
            raise _RefusedError("refers to itself", "write the value out", _line(node))
        if depth >= DEEPEST:
            raise _RefusedError(*_DEEP, _line(node))
        before = self._count
        self._add(1, node)
        self._open.add(id(node))
        value = self._container(node, depth + 1)
        self._open.discard(id(node))
        self._known[id(node)] = (value, self._count - before)
        return value

    def _container(self, node: Node, depth: int) -> Any:
        if node.tag not in _CONTAINERS:
            raise _unreadable_tag(node)
        if isinstance(node, SequenceNode):
            return [self._value(child, depth) for child in node.value]
        data: dict[str, Any] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged.append(value_node)
                continue
            key = _key(key_node)
            if key in data:
                raise _twice(key, _line(key_node))
            data[key] = self._value(value_node, depth)
        for one in merged:
            data = {**self._merged(one, depth), **data}
        return data

    def _merged(self, node: Node, depth: int) -> dict[str, Any]:
        """Return what ``<<`` brings in: a mapping, or several, of which the first wins."""
        value = self._value(node, depth)
        merged: dict[str, Any] = {}
        for one in reversed(value if isinstance(value, list) else [value]):
            if not isinstance(one, Mapping):
                raise _RefusedError("merges what is no mapping", "merge mappings only", _line(node))
            merged |= one
        return merged

    def _add(self, count: int, node: Node) -> None:
        self._count += count
        if self.exhausted:
            raise _too_much(_line(node))


def _scalar(node: ScalarNode) -> Any:
    tag, text = node.tag, node.value
    if tag in _TEXT:
        return text
    try:
        if tag == _INT:
            return _whole(text)
        if tag == _FLOAT:
            return _float(text)
    except ValueError as error:
        raise _RefusedError(
            f"holds a number that nobody can read ({error})", "correct it", _line(node)
        ) from None
    if tag == _BOOL:
        return text.lower() in _TRUE
    if tag == _NULL:
        return None
    raise _unreadable_tag(node)


def _whole(text: str) -> int | str:
    if ":" in text:
        return text  # 22:22 is a number of YAML 1.1 to base 60, and text to Kubernetes
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    for prefix, base in (("0b", 2), ("0x", 16), ("0o", 8)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base)
    return sign * int(digits, 8 if digits.startswith("0") and digits != "0" else 10)


def _float(text: str) -> float | str:
    if ":" in text:
        return text
    plain = text.replace("_", "").lower()
    return float(plain.replace(".inf", "inf").replace(".nan", "nan"))


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise _RefusedError("has a key that is no text", "write keys as text", _line(node))
    value = _scalar(node)
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _child(node: Node | None, key: str | int) -> tuple[Node, Node] | None:
    """Return a child and the node at whose line it stands: its key, or the item itself."""
    if isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    if isinstance(node, MappingNode):
        for key_node, value in node.value:
            if isinstance(key_node, ScalarNode) and key_node.value == key:
                return value, key_node
    return None


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _twice(key: str, line: int | None) -> _RefusedError:
    shown = key if key.isprintable() and len(key) <= 80 else ascii(key[:80])
    reason = f"has the key {shown} twice, and readers differ in which one counts"
    return _RefusedError(reason, "keep one of them", line)


def _too_much(line: int | None) -> _RefusedError:
    reason = f"holds more than {MOST_VALUES:,} values once its aliases are written out"
    return _RefusedError(reason, "split it, or write out what the aliases stand for", line)


_DEEP: Final = (
    f"nests deeper than {DEEPEST} levels",
    "give Kubernetes manifests, which are flat enough",
)


def _too_deep(line: int | None) -> Flaw:
    return Flaw(reason=_DEEP[0], remedy=_DEEP[1], line=line)


def _unreadable_tag(node: Node) -> _RefusedError:
    tag = node.tag if node.tag.isprintable() else ascii(node.tag)
    reason = f"has the tag {tag[:80]}, whose meaning nobody here knows"
    return _RefusedError(reason, "write plain values", _line(node))
