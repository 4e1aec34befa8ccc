"""GPUs as people and logs name them, and the memory that CUDA reports on each.

``total_gib`` is the physical total of a start-up log (``torch.cuda.mem_get_info``), not the
catalogue figure: a card sold as 80 GB has 79.19 GiB, one sold as 48 GB with ECC 44.4. Sources:
totals printed in public vLLM, SGLang and TensorRT-LLM logs (``tests/cases/memory``), and the
"GPU 0 has a total capacity of" lines of public out-of-memory reports; read 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenworks.errors import ConfigError, Problem


@dataclass(frozen=True, kw_only=True)
class Card:
    """One card: catalogue GB, physical total in GiB and CUDA compute capability.

    ``unified`` cards share their memory with the host. ``lowest_gib`` is what is certainly there,
    below ``total_gib`` where the total is a share of the catalogue figure.
    """

    name: str
    catalogue_gb: int
    total_gib: float
    capability: tuple[int, int] = (9, 0)
    unified: bool = False
    lowest_gib: float | None = None


def _card(name: str, catalogue_gb: int, total_gib: float, major: int, minor: int) -> Card:
    return Card(
        name=name, catalogue_gb=catalogue_gb, total_gib=total_gib, capability=(major, minor)
    )


CARDS: tuple[tuple[str, tuple[Card, ...]], ...] = (
    (r"gh200", (_card("gh200", 96, 94.5, 9, 0),)),
    (r"h100.*nvl", (_card("h100-nvl", 94, 93.1, 9, 0),)),
    (r"h[18]00", (_card("h100", 80, 79.19, 9, 0),)),
    (r"h200", (_card("h200", 141, 139.8, 9, 0),)),
    (r"\bh20\b", (_card("h20", 96, 95.1, 9, 0),)),
    (r"g?b200", (_card("b200", 192, 178.35, 10, 0),)),
    (r"g?b300", (_card("b300", 288, 267.68, 10, 3),)),
    (r"[av]800|a100", (_card("a100-40gb", 40, 39.49, 8, 0), _card("a100-80gb", 80, 79.14, 8, 0))),
    (r"v100", (_card("v100-16gb", 16, 15.77, 7, 0), _card("v100-32gb", 32, 31.73, 7, 0))),
    (r"l40s", (_card("l40s", 48, 44.4, 8, 9),)),
    (r"\bl40\b", (_card("l40", 48, 44.4, 8, 9),)),
    (r"\bl20\b", (_card("l20", 48, 44.5, 8, 9),)),
    (r"\bl4\b", (_card("l4", 24, 22.03, 8, 9),)),
    (r"\bt4\b", (_card("t4", 16, 14.56, 7, 5),)),
    (r"a10g?\b", (_card("a10g", 24, 22.06, 8, 6),)),
    (r"\ba40\b", (_card("a40", 48, 44.35, 8, 6),)),
    (r"a6000", (_card("rtx-a6000", 48, 47.43, 8, 6),)),
    (r"a5000", (_card("rtx-a5000", 24, 23.68, 8, 6),)),
    (r"a4000", (_card("rtx-a4000", 16, 15.73, 8, 6),)),
    (r"pro 6000", (_card("rtx-pro-6000", 96, 94.97, 12, 0),)),
    (r"pro 4500", (_card("rtx-pro-4500", 32, 31.38, 12, 0),)),
    (r"6000 ada", (_card("rtx-6000-ada", 48, 47.5, 8, 9),)),
    (r"5090", (_card("rtx-5090", 32, 31.36, 12, 0),)),
    (r"5080|5070 ti", (_card("rtx-5080", 16, 15.47, 12, 0),)),
    (r"4090", (_card("rtx-4090", 24, 23.52, 8, 9),)),
    (r"4080", (_card("rtx-4080", 16, 15.6, 8, 9),)),
    (r"3090", (_card("rtx-3090", 24, 23.58, 8, 6),)),
    (r"3080", (_card("rtx-3080", 10, 9.77, 8, 6),)),
    (r"3060", (_card("rtx-3060", 12, 11.76, 8, 6),)),
    (r"3050", (_card("rtx-3050", 6, 5.8, 8, 6),)),
    (r"2080", (_card("rtx-2080-ti", 11, 10.73, 7, 5),)),
    (
        r"gb10|spark",
        (
            Card(
                name="gb10",
                catalogue_gb=128,
                total_gib=119.7,
                capability=(12, 1),
                unified=True,
            ),
        ),
    ),
    (r"mi300", (_card("mi300x", 192, 191.5, 9, 4),)),
)
"""Patterns over lower-case names; several cards where one name is sold in several sizes."""

NVLINK_CARDS = ("a100-40gb", "a100-80gb", "h100", "h200", "b200", "b300")
"""Cards that are commonly joined by NVLink within a node."""

SHARE_OF_CATALOGUE = 0.95
LOWEST_SHARE_OF_CATALOGUE = 0.9
"""Physical GiB by catalogue GB: from 0.90 (24 GB with ECC) to 0.99 (80 GB) over the cards above."""

ANY_CAPABILITY = (9, 0)


def find_card(name: str | None, memory_gib: float | None, total_gib: float | None) -> Card:
    """The card that a name, a catalogue size and a measured total describe, total winning.

    Raises:
        ConfigError: when they leave open how much memory there is.
    """
    found = possible_cards(name, memory_gib, total_gib)
    if len(found) > 1:
        raise _unknown(name, _sizes(found))
    return found[0]


def ambiguity(cards: Sequence[Card]) -> str:
    """Why several cards are possible, as a sentence without its end."""
    return f"gpu: {cards[0].name} {_sizes(cards)}"


def _sizes(cards: Sequence[Card]) -> str:
    return f"is sold with {' and '.join(str(card.catalogue_gb) for card in cards)} GB"


def possible_cards(
    name: str | None, memory_gib: float | None, total_gib: float | None
) -> tuple[Card, ...]:
    """Every card that a name, a catalogue size and a measured total may describe.

    Raises:
        ConfigError: when they say nothing of how much memory there is.
    """
    known = _smallest_named(name, memory_gib)
    unified = bool(re.search(r"jetson|unified|strix|gtt", (name or "").lower()))
    if total_gib is not None:
        base = known[0] if known else None
        measured = Card(
            name=base.name if base else name or "unnamed",
            catalogue_gb=round(memory_gib or total_gib),
            total_gib=total_gib,
            capability=base.capability if base else ANY_CAPABILITY,
            unified=unified or bool(base and base.unified),
        )
        return (measured,)
    if known:
        return known
    if memory_gib is None:
        raise _unknown(name, "is a GPU whose memory is not known")
    assumed = Card(
        name=name or f"{memory_gib:g} GB card",
        catalogue_gb=round(memory_gib),
        total_gib=memory_gib * SHARE_OF_CATALOGUE,
        unified=unified,
        lowest_gib=memory_gib * LOWEST_SHARE_OF_CATALOGUE,
    )
    return (assumed,)


def _smallest_named(name: str | None, memory_gib: float | None) -> tuple[Card, ...]:
    """Cards that the name fits; of several kinds on one host, those of the smallest kind."""
    parts = re.split(r"[+/]", (name or "").lower())
    named = [cards for part in parts if (cards := _named(part))]
    if not named:
        return ()
    kind = min(named, key=lambda cards: cards[0].total_gib)
    if memory_gib is None:
        return tuple(c for c in kind if re.search(rf"{c.catalogue_gb} ?gb", parts[0])) or kind
    near = tuple(c for c in kind if 0.8 <= memory_gib / c.catalogue_gb <= 1.25)
    return near or (kind if len(kind) == 1 else ())


def _named(part: str) -> tuple[Card, ...]:
    return next((cards for pattern, cards in CARDS if re.search(pattern, part)), ())


def _unknown(name: str | None, reason: str) -> ConfigError:
    remedy = "give gpu.memory_gib, or gpu.reported_total_gib from a start-up log"
    return ConfigError([Problem(key="gpu", given=name or "nothing", reason=reason, remedy=remedy)])
