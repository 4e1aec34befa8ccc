"""Where weights lie: large enough, fast enough, and no larger or faster than that."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.aws.conftest import GOOD, ROOT, Changed, aws_of, planned
from tokenworks.plan.aws import storage
from tokenworks.plan.aws.types import AwsPlan

rates = st.integers(0, 10**5).map(Fraction)


def delivered(capacity: int, rate: int) -> Fraction:
    return rate * Fraction(capacity, 1024)


@given(st.integers(1, 100_000), rates)
def test_the_file_system_holds_and_delivers_what_is_asked(gib: int, rate: Fraction) -> None:
    capacity, throughput = storage.size(gib, rate)
    assert capacity >= gib
    assert capacity == 1200 or capacity % 2400 == 0
    assert throughput in storage.THROUGHPUTS
    assert delivered(capacity, throughput) >= rate


@given(st.integers(1, 20_000), rates)
def test_no_smaller_and_no_slower_file_system_would_do(gib: int, rate: Fraction) -> None:
    capacity, throughput = storage.size(gib, rate)
    smaller = [one for one in (1200, *range(2400, capacity, 2400)) if gib <= one < capacity]
    assert not [pair for pair in product(smaller, storage.THROUGHPUTS) if delivered(*pair) >= rate]
    slower = [one for one in storage.THROUGHPUTS if one < throughput]
    assert not [one for one in slower if delivered(capacity, one) >= rate]


@pytest.mark.parametrize(
    ("gib", "rate", "size"),
    [
        (1, 0, (1200, 125)),
        (1200, 146, (1200, 125)),
        (1200, 147, (1200, 250)),
        (1201, 0, (2400, 125)),
        (2400, 2343, (2400, 1000)),
        (2400, 2344, (4800, 1000)),
    ],
)
def test_sizes_go_in_the_steps_that_can_be_had(gib: int, rate: int, size: tuple[int, int]) -> None:
    assert storage.size(gib, Fraction(rate)) == size


def test_every_revision_that_is_kept_has_room(changed: Changed) -> None:
    few = changed(("previous_revisions: 2", "previous_revisions: 0")).storage.file_system
    many = changed(("previous_revisions: 2", "previous_revisions: 18")).storage.file_system
    # Beside those that are kept, the served one and one that arrives: 20 against 2.
    assert many.capacity_gib.value > 8 * few.capacity_gib.value


@pytest.mark.parametrize("name", ["example-aws", "aws-images"])
def test_the_file_system_holds_the_volumes_of_all_models(name: str) -> None:
    plan = planned(name, GOOD if name == "aws-images" else ROOT / "stacks")
    volumes = sum(model.weights.volume_gib.value for model in plan.models)
    assert aws_of(plan).storage.file_system.capacity_gib.value >= volumes


def test_efs_lies_in_every_zone_and_has_no_throughput_of_its_own(other: AwsPlan) -> None:
    files = other.storage.file_system
    assert (files.kind, files.zone_id) == ("efs", None)
    assert files.throughput_mb_per_second_per_tib is None


LUSTRE = (
    ("{file_system: efs}", "{file_system: fsx-lustre}"),
    ("    host_lock: ubuntu-24.04-amd64-580\n", "    release_version: 1.35.6-20260714\n"),
    ("  builder_base_image: ami-0123456789abcdef0\n", ""),
)


def test_lustre_lies_where_most_gpu_nodes_are(changed: Changed) -> None:
    plan = changed(*LUSTRE)
    # Four nodes and one of those that are spread, against two and two of them in the first zone.
    assert plan.storage.file_system.zone_id == "usw2-az2"
    note = "node_pools[1].zone: nodes in several zones read weights across zones from usw2-az2"
    assert [one for one in plan.notes if one.startswith(note)]
    assert not [one for one in plan.notes if one.startswith("node_pools[0].zone")]


def test_lustre_lies_where_it_is_asked_to(changed: Changed) -> None:
    asked = ("{file_system: fsx-lustre}", "{file_system: fsx-lustre, zone: usw2-az3}")
    assert changed(*LUSTRE, asked).storage.file_system.zone_id == "usw2-az3"


def test_volumes_are_mounted_so_that_a_job_can_fill_and_lock_them(
    example: AwsPlan, other: AwsPlan
) -> None:
    """Without ``flock`` Lustre refuses locks; EFS has them by itself (NFS 4.1)."""
    for plan in (example, other):
        assert "ro" not in plan.storage.file_system.mount_options
    assert "flock" in example.storage.file_system.mount_options


def test_a_bucket_name_fits_and_is_another_ones_in_another_account(
    other: AwsPlan, changed: Changed
) -> None:
    elsewhere = changed(('"111122223333"', '"444455556666"'))
    names = {plan.storage.bucket for plan in (other, elsewhere)}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)
