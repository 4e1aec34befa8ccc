"""Ports: a block for each cluster, whoever starts at the same time."""

from __future__ import annotations

import json
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tokenworks.local_cluster.layout import PORTS
from tokenworks.local_cluster.ports import (
    BLOCK,
    BLOCKS,
    FIRST,
    Reservations,
    choose_block,
    is_free,
    ports_of,
)


def test_a_block_has_a_port_for_each_purpose_and_stays_within_itself() -> None:
    ports = ports_of(FIRST)
    assert tuple(ports) == PORTS
    assert len(set(ports.values())) == len(PORTS) <= BLOCK


def test_two_owners_get_different_blocks_and_each_keeps_its_own() -> None:
    taken: dict[int, str] = {}
    for owner in ("/a", "/b"):
        block = choose_block(owner, taken, lambda _: True)
        assert block is not None
        taken[block] = owner
    assert len(taken) == 2
    for block, owner in taken.items():
        assert choose_block(owner, taken, lambda _: False) == block


def test_a_block_with_a_busy_port_is_passed_over() -> None:
    first = choose_block("/a", {}, lambda _: True)
    assert first is not None
    second = choose_block("/a", {}, lambda port: port != first + len(PORTS) - 1)
    assert second not in (None, first)


def test_the_search_goes_round_the_end_and_ends() -> None:
    taken = {FIRST + step * BLOCK: "/other" for step in range(BLOCKS)}
    free = FIRST + 17 * BLOCK
    del taken[free]
    assert choose_block("/a", taken, lambda _: True) == free
    assert choose_block("/a", {**taken, free: "/other"}, lambda _: True) is None


def test_no_port_is_one_that_clients_or_node_ports_get() -> None:
    last = ports_of(FIRST + (BLOCKS - 1) * BLOCK)
    assert max(last.values()) < 30000


def test_a_reservation_lasts_until_it_is_released_or_its_folder_is_gone(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path / "cache")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    a, b = (reservations.reserve(tmp_path / name, None) for name in ("a", "b"))
    assert a != b
    assert reservations.reserve(tmp_path / "a", None) == a
    (tmp_path / "c").mkdir()
    assert reservations.reserve(tmp_path / "c", a) != a, "another cluster has it"
    shutil.rmtree(tmp_path / "a")
    reservations.release(tmp_path / "b")
    (tmp_path / "d").mkdir()
    assert reservations.reserve(tmp_path / "d", a) == a
    known = json.loads((tmp_path / "cache" / "ports.json").read_text())
    assert set(known.values()) == {str(tmp_path / "c"), str(tmp_path / "d")}


def test_many_who_reserve_at_once_all_get_their_own(tmp_path: Path) -> None:
    owners = [tmp_path / str(number) for number in range(12)]
    for owner in owners:
        owner.mkdir()
    reservations = Reservations(tmp_path / "cache")
    with ThreadPoolExecutor(len(owners)) as pool:
        blocks = list(pool.map(lambda owner: reservations.reserve(owner, None), owners))
    assert len(set(blocks)) == len(owners)


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)
