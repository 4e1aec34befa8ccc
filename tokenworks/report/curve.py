"""The break-even curve as an SVG picture: two lines, where they cross, and the workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tokenworks.errors import OperationError
from tokenworks.plan.cost_types import Crossover, CurvePoint
from tokenworks.plan.types import Plan

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 96, 24, 64, 56
TICKS = 5
FONT = 'font-family="sans-serif" font-size="12"'
OWN, API, MARK = "#1b6ca8", "#b3541e", "#444444"


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """From tokens and cents to points of the picture."""

    tokens: int
    cents: int

    def x(self, tokens: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * tokens / self.tokens

    def y(self, cents: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * cents / self.cents


def write_curves(plan: Plan, folder: Path) -> tuple[Path, ...]:
    """Write ``<model>-break-even.svg`` for every model that is compared with an API.

    Raises:
        OperationError: no model is compared, or the folder cannot be written to.
    """
    compared = [model for model in plan.cost.models if model.crossover is not None]
    if not compared:
        raise OperationError(
            "break-even curve",
            reason="no model of this environment is compared with an API",
            remedy="give cost.api, and traffic with peak_to_mean",
        )
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for model in compared:
            assert model.crossover is not None  # noqa: S101  (chosen above)
            file = folder / f"{model.model}-break-even.svg"
            file.write_text(curve_svg(model.model, model.crossover, plan.cost.currency), "utf-8")
            written.append(file)
    except OSError as error:
        raise OperationError(
            f"writing to {folder}", reason=str(error), remedy="name a folder you may write to"
        ) from error
    return tuple(written)


def curve_svg(model: str, crossover: Crossover, currency: str) -> str:
    """One SVG document, self-contained and the same for the same plan."""
    scale = _Scale(
        tokens=max(1, crossover.curve[-1].tokens_per_day),
        cents=max(1, *(max(p.self_hosted_cents, p.api_cents) for p in crossover.curve)),
    )
    found = crossover.tokens_per_day.value
    says = (
        "never cheaper"
        if found is None
        else f"cheaper from {found / 1e6:,.1f} million tokens a day"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, f"{model}: self-hosted is {says}", size=15),
        _text(LEFT, 44, f"API: {crossover.api}", size=12),
        *_axes(scale, currency),
        _line([(p.tokens_per_day, p.self_hosted_cents) for p in crossover.curve], scale, OWN),
        _line([(p.tokens_per_day, p.api_cents) for p in crossover.curve], scale, API),
        *_marks(crossover, scale),
        *_legend(crossover.curve[-1], scale),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"


def _axes(scale: _Scale, currency: str) -> Iterable[str]:
    for tick in range(TICKS + 1):
        tokens, cents = scale.tokens * tick / TICKS, scale.cents * tick / TICKS
        x, y = scale.x(tokens), scale.y(cents)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
        yield _text(LEFT - 8, y + 4, f"{cents / 100:,.0f}", anchor="end")
        yield _text(x, HEIGHT - BOTTOM + 18, f"{tokens / 1e6:,.1f}", anchor="middle")
    yield _text(WIDTH - RIGHT, HEIGHT - 14, "million tokens a day", anchor="end")
    yield _text(LEFT - 8, TOP - 8, f"{currency} a month", anchor="end")


def _line(points: Sequence[tuple[int, int]], scale: _Scale, colour: str) -> str:
    places = " ".join(f"{scale.x(tokens):.1f},{scale.y(cents):.1f}" for tokens, cents in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _marks(crossover: Crossover, scale: _Scale) -> Iterable[str]:
    marks = [(crossover.load_tokens_per_day, "this workload")]
    if crossover.tokens_per_day.value is not None:
        marks.append((crossover.tokens_per_day.value, "break-even"))
    for row, (tokens, name) in enumerate(marks):
        x = scale.x(tokens)
        bottom = HEIGHT - BOTTOM
        yield f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{MARK}" stroke-dasharray="4 4"/>'
        yield _text(x + 4, TOP + 14 + 16 * row, name)


def _legend(last: CurvePoint, scale: _Scale) -> Iterable[str]:
    for name, cents in (("self-hosted", last.self_hosted_cents), ("API", last.api_cents)):
        yield _text(WIDTH - RIGHT - 4, scale.y(cents) - 6, name, anchor="end")
