"""Images are the same bytes for the same content, whoever made the files, wherever and when."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.images.oci import Entry, Image, by_digest, write_archive


def image(name: str, *layers: tuple[Entry, ...]) -> Image:
    return Image(name=name, layers=layers, environment={"PATH": "/bin"}, entrypoint=("/run",))


def made(folder: Path, *images: Image) -> tuple[Path, dict[str, str]]:
    folder.mkdir(parents=True)
    archive = folder / "images.tar"
    return archive, write_archive(images, "amd64", archive, folder)


def test_times_owners_and_the_order_of_files_change_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"program")
    entries = (Entry(path="bin"), Entry(path="bin/run", source=program))
    first, digests = made(tmp_path / "a", image("local/a:1", entries))
    os.utime(program, (0, 0))
    program.chmod(0o600)
    second, again = made(tmp_path / "b", image("local/a:1", entries[::-1]))
    assert digests == again
    assert first.read_bytes() == second.read_bytes()


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_other_content_is_another_image(one: bytes, other: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        layers = [(Entry(path="file", source=text),) for text in (one, other)]
        digests = [
            made(Path(folder, str(number)), image("local/a:1", layer))[1]["local/a:1"]
            for number, layer in enumerate(layers)
        ]
    assert (digests[0] == digests[1]) == (one == other)


def test_every_blob_is_named_by_the_sum_of_its_bytes_and_shared_layers_are_there_once(
    tmp_path: Path,
) -> None:
    base = (Entry(path="base", source=b"base"),)
    archive, digests = made(
        tmp_path / "a",
        image("local/a:1", base),
        image("local/b:2", base, (Entry(path="b", source=b"b"),)),
    )
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        blobs = {name: tar.extractfile(name) for name in names if name.startswith("blobs/")}
        contents = {name: file.read() for name, file in blobs.items() if file}
        index = json.loads(tar.extractfile("index.json").read())  # type: ignore[union-attr]
    assert len(names) == len(set(names))
    for name, content in contents.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    # Two layers, two configurations, two manifests.
    assert len(contents) == 6
    named = {each["annotations"]["io.containerd.image.name"] for each in index["manifests"]}
    assert named == {
        *digests,
        *(by_digest(name, digest) for name, digest in digests.items()),
    }


def test_links_and_folders_keep_their_kind(tmp_path: Path) -> None:
    entries = (
        Entry(path="lib", link="usr/lib"),
        Entry(path="tmp", mode=0o1777),
        Entry(path="run", mode=0o755, source=b"#!"),
    )
    folder = tmp_path / "a"
    made(folder, image("local/a:1", entries))
    with tarfile.open(folder / "layer-0.tar") as tar:
        kinds = {each.name: (each.type, each.mode, each.mtime, each.uid) for each in tar}
    assert kinds == {
        "lib": (tarfile.SYMTYPE, 0o777, 0, 0),
        "tmp": (tarfile.DIRTYPE, 0o1777, 0, 0),
        "run": (tarfile.REGTYPE, 0o755, 0, 0),
    }
