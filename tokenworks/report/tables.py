"""Small tables and figures that every report uses."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from rich.table import Table


def table(title: str, *headings: str) -> Table:
    """A table without lines, wide texts folded."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def filled(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table with its rows."""
    made = table(title, *headings)
    for row in rows:
        made.add_row(*row)
    return made


def money(amount: Fraction, currency: str, digits: int = 2) -> str:
    """A sum as people write it, ``1,234.50 USD``; rounded only here."""
    exact = round(amount, digits)
    number = Decimal(exact.numerator) / Decimal(exact.denominator)
    return f"{number:,.{digits}f} {currency}"


def seconds(count: float) -> str:
    """A time as people say it: seconds, or minutes beyond two of them."""
    return f"{count:.0f} s" if count < 120 else f"{count / 60:.0f} min"


def bar(parts: Iterable[tuple[str, float]], width: int = 60) -> str:
    """Shares of a whole side by side, each drawn with its own letter; what is left are dots.

    A part that is there has at least one letter.
    """
    drawn = ""
    for letter, share in parts:
        drawn += letter * (max(1, round(share * width)) if share > 0 else 0)
    return drawn[:width].ljust(width, ".")
