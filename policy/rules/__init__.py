"""Every rule, one module each; a module's name is its rule's sentence."""

from __future__ import annotations

from typing import Final

from policy.rule import Rule
from policy.rules import (
    engine_ports_are_never_public,
    every_version_is_exact,
    images_are_pinned_by_digest,
)

RULES: Final[tuple[Rule, ...]] = (
    engine_ports_are_never_public.RULE,
    images_are_pinned_by_digest.RULE,
    every_version_is_exact.RULE,
)
