"""Texts that people hand to the check, as resources with the lines they stand on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from policy.documents import Document, Flaw, read_documents
from policy.resources import Resource
from policy.rule import Finding
from tokenworks.check.judge import not_judged

_SNAKE: Final = re.compile(r"_([a-z0-9])")
_DEEPEST_LIST: Final = 5


@dataclass
class Reading:
    """What was read from any number of texts: resources, and a finding for what was not.

    ``placed`` finds the line of a finding's key again.
    """

    resources: list[Resource] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _places: dict[tuple[str, int], tuple[Document, str]] = field(default_factory=dict)

    def add_manifests(self, text: str, origin: str) -> None:
        """Read Kubernetes objects from YAML or JSON; the items of a List are objects of their own.

        What is no object, or not even YAML, is a finding; the rest of the text is still read.
        """
        for one in read_documents(text):
            if isinstance(one, Flaw):
                self._flaw(origin, _with_hint(one, text))
            elif one.data != {}:
                for body, path in _objects(one.data, "", _DEEPEST_LIST):
                    self._add_object(one, body, path, origin)

    def add_objects(self, objects: Iterable[Mapping[str, object]], origin: str) -> None:
        """Take Kubernetes objects that are data already, such as those of a cluster."""
        for body in objects:
            for one, _ in _objects(body, "", _DEEPEST_LIST):
                self._add_object(None, one, "", origin)

    def add_list(self, text: str, origin: str) -> None:
        """Read a list of ``{type, name, properties}``.

        Cloud resources may be written with Python's names (``from_port``) as well as with those
        of the wire. An entry of another shape is a finding.
        """
        for one in read_documents(text):
            if isinstance(one, Flaw):
                self._flaw(origin, one)
            elif not isinstance(one.data, list):
                reason, remedy = "is no list of resources", "give type, name and properties of each"
                self._flaw(origin, Flaw(reason=reason, remedy=remedy, line=one.line))
            else:
                for number, entry in enumerate(one.data):
                    self._add_entry(one, entry, f"[{number}]", origin)

    def placed(self, finding: Finding) -> Finding:
        """Return the finding with the line of its key, where that can be told."""
        place = self._places.get((finding.origin, finding.line or 0))
        if place is None or not finding.key:
            return finding
        document, prefix = place
        dot = "." if prefix and not finding.key.startswith("[") else ""
        return replace(finding, line=document.line_of(f"{prefix}{dot}{finding.key}"))

    def refuse(self, subject: str, reason: str, remedy: str) -> None:
        """Note something that could not be read at all."""
        self.findings.append(not_judged(subject, reason=reason, remedy=remedy, origin=subject))

    def _add_object(self, document: Document | None, body: Any, path: str, origin: str) -> None:
        line = document.line_of(path) if document else None
        flaw = _why_no_object(body)
        if flaw is not None:
            self._flaw(origin, replace(flaw, line=line))
            return
        version, kind = body["apiVersion"], body["kind"]
        group = version if "/" in version else f"core/{version}"
        self._add(f"kubernetes:{group}:{kind}", _name_of(body), body, origin, line, document, path)

    def _add_entry(self, document: Document, entry: Any, path: str, origin: str) -> None:
        line = document.line_of(path)
        given = entry if isinstance(entry, dict) else {}
        type_, properties = given.get("type"), given.get("properties", {})
        if not (isinstance(type_, str) and type_ and isinstance(properties, dict)):
            reason, remedy = f"{path} is no resource", "give type, name and properties of each"
            self._flaw(origin, Flaw(reason=reason, remedy=remedy, line=line))
            return
        raw = properties if type_.startswith("kubernetes:") else _wire_names(properties)
        name, inside = str(given.get("name", "")), f"{path}.properties"
        self._add(type_, name, raw, origin, line, document, inside, urn=str(given.get("urn", "")))

    def _add(
        self,
        type_: str,
        name: str,
        raw: Mapping[str, object],
        origin: str,
        line: int | None,
        document: Document | None,
        path: str,
        *,
        urn: str = "",
    ) -> None:
        resource = Resource.of(type_, name, raw, urn=urn, origin=origin, line=line)
        self.resources.append(resource)
        if document is not None and line is not None:
            self._places.setdefault((origin, line), (document, path))

    def _flaw(self, origin: str, flaw: Flaw) -> None:
        self.findings.append(
            not_judged(
                origin, reason=flaw.reason, remedy=flaw.remedy, origin=origin, line=flaw.line
            )
        )


def _objects(body: Any, path: str, depth: int) -> Iterator[tuple[Any, str]]:
    """Yield the objects of one document with their key paths: itself, or the items of a list."""
    if not isinstance(body, Mapping):
        yield body, path
        return
    kind, items = body.get("kind"), body.get("items") or []
    is_list = isinstance(kind, str) and kind.endswith("List") and "items" in body
    if not (is_list and isinstance(items, list) and depth):
        yield body, path
        return
    # Items of a typed list may leave out what its own kind says (kubernetes.io, API concepts).
    given = {"apiVersion": body.get("apiVersion"), "kind": str(kind).removesuffix("List")}
    inherited = {key: value for key, value in given.items() if value}
    for index, item in enumerate(items):
        one = {**inherited, **item} if isinstance(item, Mapping) else item
        yield from _objects(one, f"{path}.items[{index}]".lstrip("."), depth - 1)


def _with_hint(flaw: Flaw, text: str) -> Flaw:
    if "{{" not in text:
        return flaw
    hint = "render templates first, as `helm template` does, or"
    return replace(flaw, remedy=f"{hint} {flaw.remedy}")


def _why_no_object(body: Any) -> Flaw | None:
    if not isinstance(body, Mapping):
        return Flaw(
            reason="is no Kubernetes object", remedy="give Kubernetes objects, one per document"
        )
    missing = [key for key in ("apiVersion", "kind") if not _is_word(body.get(key))]
    if not missing:
        return None
    return Flaw(
        reason=f"has no {' and no '.join(missing)}, so that nobody can tell what it is",
        remedy="give Kubernetes objects, one per document",
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _name_of(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name


def _wire_names(raw: Mapping[str, object]) -> dict[str, object]:
    return {_SNAKE.sub(_raised, str(key)): _wire_value(value) for key, value in raw.items()}


def _wire_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _wire_names(value)
    return [_wire_value(child) for child in value] if isinstance(value, list) else value


def _raised(match: re.Match[str]) -> str:
    return match[1].upper()
