"""How a manifest differs from what its source says now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenworks.environment.weights import WeightFile

ABSENT = "is not there"


@dataclass(frozen=True, kw_only=True)
class FileDifference:
    """One file: what is listed of it, and what the source says."""

    path: str
    listed: str
    found: str


def differences(
    listed: Iterable[WeightFile], found: Iterable[WeightFile]
) -> Iterator[FileDifference]:
    """Every file that is missing, not listed, or other than listed, by path."""
    left, right = ({one.path: one for one in side} for side in (listed, found))
    for path in sorted(left.keys() | right.keys()):
        if left.get(path) != right.get(path):
            yield FileDifference(
                path=path, listed=_said(left.get(path)), found=_said(right.get(path))
            )


def _said(file: WeightFile | None) -> str:
    return ABSENT if file is None else f"{file.bytes} bytes, {file.sha256}"
