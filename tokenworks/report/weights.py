"""Manifests of weights as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tokenworks.report.tables import filled
from tokenworks.weights.differences import FileDifference


def differences_table(name: str, found: Iterable[FileDifference]) -> Table:
    """What a manifest lists otherwise than its source says."""
    rows = ((one.path, one.listed, one.found) for one in found)
    return filled(f"{name}: differences", ("file", "listed", "found now"), rows)
