"""GPUs as people write them down: how much memory, and how sure that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.errors import ConfigError
from tokenworks.facts.cards import CARDS, possible_cards


@pytest.mark.parametrize(
    ("name", "memory_gib", "gpus", "total_gib"),
    [
        ("NVIDIA H100 80GB HBM3", None, 1, 79.19),
        ("NVIDIA A100-SXM4-40GB", None, 1, 39.49),
        ("NVIDIA A100 (160 GB total)", None, 2, 79.14),
        ("NVIDIA A100", 160, 2, 79.14),
        ("97,887 MiB card (RTX PRO 6000)", None, 1, 94.97),
        ("24 GB card (23.58 GiB)", 24, 1, 23.58),
        ("NVIDIA GH200 480GB", None, 1, 94.5),
        ("Tesla V100-SXM2-32GB", None, 1, 31.73),
        ("g5.12xlarge 4xA10G", None, 4, 22.06),
        ("NVIDIA V100 / A10G", None, 1, 15.77),
        ("NVIDIA L4 (AWS g6.12xlarge)", 24, 4, 22.03),
    ],
)
def test_a_name_says_how_much_memory_logs_report(
    name: str, memory_gib: float | None, gpus: int, total_gib: float
) -> None:
    assert possible_cards(name, memory_gib, None, gpus)[0].total_gib == total_gib


@pytest.mark.parametrize(
    ("name", "memory_gib", "lowest_gib"),
    [
        (None, 24, 21.6),
        ("24 GB card", None, 21.6),
        ("NVIDIA H100 MIG 3g.40gb", 80, 36),
        ("RTX 4090 Laptop GPU", None, 14.4),
        ("RTX 3060 Ti", None, 7.2),
        ("NVIDIA GeForce RTX 4090", 16, 14.4),
        ("AMD Instinct MI355X", None, 259.2),
        ("AMD Strix Halo gfx1151 (61.7 GB GTT cap)", None, 55.53),
        ("NVIDIA H20-3e", 141, 126.9),
    ],
)
def test_a_catalogue_size_has_a_lower_end(
    name: str | None, memory_gib: float | None, lowest_gib: float
) -> None:
    (card,) = possible_cards(name, memory_gib, None)
    assert card.ends[0].total_gib > card.ends[1].total_gib == pytest.approx(lowest_gib)


def test_a_measured_total_is_no_guess() -> None:
    (card,) = possible_cards("NVIDIA A100", None, 39.49)
    assert card.ends == (card,)


@pytest.mark.parametrize(
    ("name", "unified", "page_cache_counts"),
    [
        ("NVIDIA DGX Spark (GB10)", True, True),
        ("Jetson AGX Orin 64GB", True, True),
        ("AMD Strix Halo gfx1151 (61.7 GB GTT cap)", True, False),
        ("NVIDIA H100", False, False),
    ],
)
def test_unified_memory_is_known_by_name(name: str, unified: bool, page_cache_counts: bool) -> None:
    card = possible_cards(name, None, None)[0]
    assert (card.unified, card.page_cache_counts) == (unified, page_cache_counts)


@pytest.mark.parametrize("name", [None, "", "abacus", "AMD", "TPU v5e"])
def test_what_tells_no_memory_is_refused(name: str | None) -> None:
    with pytest.raises(ConfigError, match="memory is not known"):
        possible_cards(name, None, None)


@given(st.sampled_from([card for _, kinds in CARDS for card in kinds]))
def test_every_card_is_found_by_its_own_name_and_size(card: object) -> None:
    found = possible_cards(card.name.replace("-", " "), card.catalogue_gb, None)  # type: ignore[attr-defined]
    assert card in found


@given(st.text(max_size=20), st.none() | st.floats(1, 300))
def test_any_words_are_answered_or_refused(name: str, memory_gib: float | None) -> None:
    try:
        assert possible_cards(name, memory_gib, None)
    except ConfigError:
        assert memory_gib is None


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA B200", (10, 0)),
        ("NVIDIA A30", (8, 0)),
        ("RTX 4090 Laptop GPU", (8, 9)),
        ("AMD Instinct MI300X", None),
        ("AMD Instinct MI355X", None),
        ("Intel Gaudi 3", None),
        ("24 GB card", None),
    ],
)
def test_only_a_named_card_of_nvidia_has_a_compute_capability(
    name: str, capability: tuple[int, int] | None
) -> None:
    card = possible_cards(name, None, None)[0]
    assert card.capability == capability
    assert card.lacks((99, 0)) == (capability is not None)


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("RTX 3060 Laptop GPU", [6]),
        ("RTX 5070 Ti Laptop GPU", [12]),
        ("RTX 2060 SUPER", [8]),
        ("AMD gfx942", [192, 128, 256]),
        ("Radeon RX 9070 GRE", [12, 16]),
    ],
)
def test_a_name_has_every_size_that_it_is_sold_with(name: str, gigabytes: list[int]) -> None:
    assert [card.catalogue_gb for card in possible_cards(name, None, None)] == gigabytes
