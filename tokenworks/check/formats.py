"""The formats of a report, each made only when it is asked for."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenworks.check.judge import Judgement


class Format(enum.StrEnum):
    """How a judgement is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


def rendered(judgement: Judgement, wanted: Format, root: Path) -> str:
    """Return a judgement in one format; files below ``root`` are named relative to it."""
    if wanted is Format.SARIF:
        from tokenworks.check.sarif import as_sarif

        return as_sarif(judgement, root)
    if wanted is Format.JUNIT:
        from tokenworks.check.junit import as_junit

        return as_junit(judgement)
    from tokenworks.check.report import as_json, as_text

    return as_json(judgement) if wanted is Format.JSON else as_text(judgement)
