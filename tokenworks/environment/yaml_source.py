"""YAML as plain data beside the line of every key, with duplicate keys refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import BaseConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tokenworks.errors import ConfigError, Problem

KeyPath = tuple[str | int, ...]


def spell(path: KeyPath) -> str:
    """Spell a key path the way people read it, ``models[0].weights.revision``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


@dataclass(frozen=True, kw_only=True)
class YamlSource:
    """One YAML document: its data, the line of each key path, and the keys written twice."""

    file: Path
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def line_of(self, path: KeyPath) -> int | None:
        """The line of the key path, or of its nearest parent that was written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def problem(self, path: KeyPath, *, given: str | None, reason: str, remedy: str) -> Problem:
        """A problem with the value at a key path, placed in the file."""
        return Problem(
            key=spell(path),
            given=given,
            reason=reason,
            remedy=remedy,
            file=self.file,
            line=self.line_of(path),
        )


def read_yaml(file: Path) -> YamlSource:
    """Read one YAML file, YAML 1.2 only: ``yes`` and ``no`` are text, not truth values.

    Raises:
        ConfigError: the file is missing, not text, empty, not a mapping, or not YAML.
    """
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise _refuse(file, "does not exist", "create it or correct the name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _refuse(file, f"cannot be read ({error})", "make it a readable UTF-8 file") from error
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
    except YAMLError as error:
        raise _not_yaml(file, error) from error
    if root is None:
        raise _refuse(file, "is empty", "start from stacks/local.yaml")
    if not isinstance(root, MappingNode):
        raise _refuse(file, "is not a mapping of keys to values", "start from stacks/local.yaml")
    reader = _Reader(file, yaml.constructor)
    data = reader.value(root, ())
    return YamlSource(file=file, data=data, lines=reader.lines, problems=tuple(reader.problems))


class _Reader:
    """Turns composed nodes into plain data while noting lines and duplicate keys."""

    def __init__(self, file: Path, scalars: BaseConstructor) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {(): 1}
        self.problems: list[Problem] = []
        self._scalars = scalars
        self._open: set[int] = set()

    def value(self, node: Node, path: KeyPath) -> Any:
        if id(node) in self._open:
            self._complain(path, node, "refers to itself", "write the value out")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self._item(child, (*path, i)) for i, child in enumerate(node.value)]
            return self._scalars.construct_object(node)
        finally:
            self._open.discard(id(node))

    def _item(self, node: Node, path: KeyPath) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        return self.value(node, path)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            child = (*path, key)
            if key in data:
                first = self.lines[child]
                self._complain(
                    child, key_node, f"is written twice (first on line {first})", "keep one of them"
                )
                continue
            self.lines[child] = key_node.start_mark.line + 1
            data[key] = self.value(value_node, child)
        return data

    def _complain(self, path: KeyPath, node: Node, reason: str, remedy: str) -> None:
        self.problems.append(
            Problem(
                key=spell(path),
                reason=reason,
                remedy=remedy,
                file=self.file,
                line=node.start_mark.line + 1,
            )
        )


def _refuse(file: Path, reason: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key="", reason=reason, remedy=remedy, file=file)])


def _not_yaml(file: Path, error: YAMLError) -> ConfigError:
    marked = isinstance(error, MarkedYAMLError) and error.problem_mark is not None
    line = error.problem_mark.line + 1 if marked else None  # type: ignore[attr-defined]
    detail = (error.problem if isinstance(error, MarkedYAMLError) else None) or str(error)
    reason = f"is not YAML ({detail})"
    remedy = "correct the indentation, quotes or brackets there"
    return ConfigError([Problem(key="", reason=reason, remedy=remedy, file=file, line=line)])
