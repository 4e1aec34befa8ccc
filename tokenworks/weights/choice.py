"""Which files of a repository engines need: the others are never fetched, so never loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

NEEDED = (
    "*.safetensors",
    "*.json",
    "*.txt",
    "*.model",
    "*.jinja",
    "*.tiktoken",
    "LICENSE*",
    "USAGE_POLICY*",
)
"""At the top of a repository: tensors, configuration, tokenizer, chat template, licence. Pickled
weights are not among them, since loading those runs what is in them."""


def chosen(
    paths: Iterable[str], patterns: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that are needed and those that are left out, both sorted.

    Without ``patterns``, ``NEEDED`` are taken, of the top folder alone.
    """
    taken: list[str] = []
    left: list[str] = []
    for path in sorted(paths):
        needed = (
            any(fnmatchcase(path, pattern) for pattern in patterns)
            if patterns
            else "/" not in path and any(fnmatchcase(path, one) for one in NEEDED)
        )
        (taken if needed else left).append(path)
    return tuple(taken), tuple(left)
