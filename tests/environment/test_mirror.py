"""A mirror of images: other names, the same digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.planning import resolve_loaded

ROOT = Path(__file__).resolve().parents[2]
LOCK = read_lock(ROOT / "stacks")


def test_a_mirrored_lock_finds_images_under_their_own_name_and_gives_the_mirror_s() -> None:
    mirrored = LOCK.mirrored("registry.example.org/mirror")
    for image in LOCK.images:
        found = mirrored.find(image.repository, image.tag)
        assert found is not None
        assert found.repository == f"registry.example.org/mirror/{image.repository}"
        assert found.digest == image.digest
    assert mirrored.find("docker.io/library/busybox", "latest") is None


def test_without_a_mirror_the_lock_stays_what_it_is() -> None:
    assert LOCK.mirrored(None) is LOCK


@pytest.mark.parametrize("name", ["local", "example-hosts"])
def test_every_platform_may_pull_from_a_mirror(name: str, tmp_path: Path) -> None:
    for other in ("weights", "example-hosts", "hosts"):
        (tmp_path / other).symlink_to(ROOT / "stacks" / other)
    text = (ROOT / "stacks" / f"{name}.yaml").read_text("utf-8")
    (tmp_path / f"{name}.yaml").write_text(f"{text}\nimage_registry: registry.example.org\n")
    plan = resolve_loaded(load_environment(name, tmp_path), LOCK)
    plain = resolve_loaded(load_environment(name, ROOT / "stacks"), LOCK)
    images = [plan.gateway.image, *(model.image for model in plan.models)]
    before = [plain.gateway.image, *(model.image for model in plain.models)]
    assert all(image.repository.startswith("registry.example.org/") for image in images)
    assert [image.digest for image in images] == [image.digest for image in before]
