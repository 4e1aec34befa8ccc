"""The archive of a node's images, kept for whoever on this machine has the same files."""

from __future__ import annotations

import os
import time
from dataclasses import fields
from pathlib import Path

import pytest

from tokenworks.images import archive as archives
from tokenworks.images.archive import UNUSED_SECONDS, archive
from tokenworks.images.local import Sources
from tokenworks.toolchain.cache import Cache


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of builds; an image costs nothing here, since its content is not the matter."""

    def build(_sources: Sources, _tags: object, finished: Path, _scratch: Path) -> None:
        (finished / "digests.json").write_text("{}")
        (finished / "images.tar").write_text("images")

    monkeypatch.setattr(archives, "_build", build)
    return []


def checkout(folder: Path) -> Sources:
    """Files of one content, wherever they lie; the Debian is the machine's."""
    folder.mkdir()
    debian = folder.parent / "debian"
    debian.mkdir(exist_ok=True)
    files = {field.name: folder / field.name for field in fields(Sources)}
    for file in files.values():
        file.write_text(file.name)
    return Sources(**(files | {"debian": debian}))


def test_two_checkouts_of_the_same_files_share_an_archive(tmp_path: Path, built: list[str]) -> None:
    cache = Cache(tmp_path / "cache")
    first = archive(cache, checkout(tmp_path / "one"), {}, built.append)
    second = archive(cache, checkout(tmp_path / "two"), {}, built.append)
    assert first == second
    assert len(built) == 1


def test_another_checkout_never_takes_away_an_archive_in_use(
    tmp_path: Path, built: list[str]
) -> None:
    cache = Cache(tmp_path / "cache")
    first = archive(cache, checkout(tmp_path / "one"), {}, built.append)
    changed = checkout(tmp_path / "two")
    changed.engine_command.write_text("another content")
    second = archive(cache, changed, {}, built.append)
    assert second.file != first.file
    assert first.file.is_file()


def test_an_archive_that_nobody_used_for_a_day_goes(tmp_path: Path, built: list[str]) -> None:
    cache = Cache(tmp_path / "cache")
    first = archive(cache, checkout(tmp_path / "one"), {}, built.append)
    long_ago = time.time() - UNUSED_SECONDS - 1
    os.utime(first.file.parent, (long_ago, long_ago))
    changed = checkout(tmp_path / "three")
    changed.engine_command.write_text("another content")
    archive(cache, changed, {}, built.append)
    assert not first.file.exists()
