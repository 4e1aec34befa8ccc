"""Every rule, one module each; a module's name is its rule's sentence."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Final

from policy.rule import Rule


def _in_order(rule: Rule) -> tuple[str, int]:
    letters, digits = re.fullmatch(r"([A-Z])([0-9]+)", rule.code).groups()  # type: ignore[union-attr]
    return letters, int(digits)


def _found() -> list[Rule]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").RULE for name in names]


# By code: E (exposure), M (the program itself), P (pins), S (pods).
RULES: Final[tuple[Rule, ...]] = tuple(sorted(_found(), key=_in_order))
