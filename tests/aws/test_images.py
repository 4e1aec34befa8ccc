"""Which machine images go, and that none goes from which anything could start."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.aws_fixtures import TARGET
from tokenworks.aws.images import Image, Use, Verdict, judge_images

OURS = {"tokenworks:environment": "shop"}


def image(number: int, tags: dict[str, str] = OURS) -> Image:
    return Image(
        id=f"ami-{number}", name=f"gpu-{number}", created=f"2026-11-{number:02}T00:00:00Z",
        tags=tags, snapshots=(f"snap-{number}",),
    )  # fmt: skip


def going(verdicts: Sequence[Verdict]) -> list[str]:
    return [one.image.id for one in verdicts if one.goes]


def test_the_newest_unused_ones_stay_and_older_ones_go() -> None:
    images = [image(number) for number in range(1, 6)]
    assert going(judge_images(images, [], [], TARGET, keep=2)) == ["ami-3", "ami-2", "ami-1"]


def test_an_image_that_a_launch_template_names_stays_however_old() -> None:
    images = [image(number) for number in range(1, 6)]
    uses = [Use(image="ami-1", by="launch template gpu version 3")]
    verdicts = judge_images(images, uses, [], TARGET, keep=0)
    assert "ami-1" not in going(verdicts)
    assert verdicts[-1].because == "used by launch template gpu version 3"


def test_used_ones_do_not_count_among_those_that_are_kept() -> None:
    images = [image(number) for number in range(1, 5)]
    uses = [Use(image="ami-4", by="instance i-1")]
    assert going(judge_images(images, uses, [], TARGET, keep=1)) == ["ami-2", "ami-1"]


def test_an_image_that_the_plan_wants_stays_before_anything_uses_it() -> None:
    verdicts = judge_images([image(1)], [], ["gpu-1"], TARGET, keep=0)
    assert going(verdicts) == []
    assert verdicts[0].because == "the environment's plan uses it"


def test_images_of_others_are_not_even_mentioned() -> None:
    images = [image(1, {}), image(2, {"tokenworks:environment": "bank"})]
    assert judge_images(images, [], [], TARGET, keep=0) == ()


@given(
    st.dictionaries(st.integers(1, 28), st.sampled_from(["shop", "bank", ""])),
    st.sets(st.integers(1, 28)),
    st.sets(st.integers(1, 28)),
    st.integers(0, 5),
)
def test_nothing_used_planned_or_foreign_ever_goes(
    made: dict[int, str], used: set[int], planned: set[int], keep: int
) -> None:
    images = [image(number, {"tokenworks:environment": owner}) for number, owner in made.items()]
    uses = [Use(image=f"ami-{number}", by="x") for number in used]
    gone = going(judge_images(images, uses, [f"gpu-{n}" for n in planned], TARGET, keep=keep))
    ours = {f"ami-{number}" for number, owner in made.items() if owner == "shop"}
    allowed = ours - {f"ami-{number}" for number in used | planned}
    assert set(gone) <= allowed
    assert len(gone) == max(0, len(allowed) - keep)
