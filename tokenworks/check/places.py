"""Where in an environment's file a resource comes from, by its labels and its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.resources import Body, peek
from tokenworks.environment.yaml_source import read_yaml
from tokenworks.naming import GATEWAY_ROLE, MODEL_LABEL, POOL_LABEL, ROLE_LABEL

_GATEWAY = "gateway"


@dataclass(frozen=True)
class Places:
    """Lines of one environment file, by the names of what is declared there."""

    models: Mapping[str, int]
    node_pools: Mapping[str, int]
    sections: Mapping[str, int]

    @classmethod
    def of(cls, file: Path) -> Places:
        """Return the places in an environment's file.

        Raises ConfigError for a file that is no YAML.
        """
        source = read_yaml(file)
        data: Mapping[str, Any] = source.data
        return cls(
            models=dict(_named(data, "models", source.lines)),
            node_pools=dict(_named(data, "node_pools", source.lines)),
            sections={key: source.lines[key,] for key in data if (key,) in source.lines},
        )

    def line_of(self, name: str, properties: Body, parent: str = "") -> int | None:
        """Return the line that a resource comes from, or None where that cannot be told.

        ``parent`` is the URN of its component. Labels are asked first; names of resources begin
        with the name of what they belong to.
        """
        labels = peek(properties, "metadata", "labels")
        for label, lines in ((MODEL_LABEL, self.models), (POOL_LABEL, self.node_pools)):
            value = peek(labels, label)
            if isinstance(value, str) and value in lines:
                return lines[value]
        if peek(labels, ROLE_LABEL) == GATEWAY_ROLE:
            return self.sections.get(_GATEWAY)
        return self._by_name(name) or self._by_name(parent.rpartition("::")[2])

    def _by_name(self, name: str) -> int | None:
        known = {**self.node_pools, **self.models}
        if _GATEWAY in self.sections:
            known[_GATEWAY] = self.sections[_GATEWAY]
        owners = [one for one in known if name == one or name.startswith(f"{one}-")]
        return known[max(owners, key=len)] if owners else None


def _named(
    data: Mapping[str, Any], section: str, lines: Mapping[tuple[str | int, ...], int]
) -> Iterator[tuple[str, int]]:
    listed = data.get(section)
    for index, entry in enumerate(listed if isinstance(listed, list) else ()):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        line = lines.get((section, index))
        if isinstance(name, str) and line is not None:
            yield name, line
