"""Weight manifests and the lock: real sums, held against what they claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenworks.environment.lock import read_lock
from tokenworks.environment.weights import read_manifest
from tokenworks.errors import ConfigError
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import BYTES_PER_PARAMETER
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.memory import parameters

STACKS = Path(__file__).resolve().parents[2] / "stacks"
DIGEST = "sha256:" + "a" * 64


def manifest(**changes: Any) -> dict[str, Any]:
    file = {"path": "config.json", "bytes": 2, "sha256": "0" * 64}
    return {
        "repository": "org/model",
        "revision": "1" * 40,
        "source": "made up for this test",
        "files": [file],
    } | changes


def read(folder: Path, content: Any) -> str:
    file = folder / "manifest.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError) as refused:
        read_manifest(file, repository="org/model", revision="1" * 40)
    return str(refused.value)


@pytest.mark.parametrize("file", sorted((STACKS / "weights").glob("*.json")), ids=lambda f: f.stem)
def test_the_files_of_a_real_manifest_hold_the_parameters_of_the_model(file: Path) -> None:
    content = json.loads(file.read_text("utf-8"))
    real = read_manifest(file, repository=content["repository"], revision=content["revision"])
    own = file.with_suffix("") / "config.json"
    record = (
        json.loads(own.read_text("utf-8")) if own.is_file() else model_shapes()[real.repository]
    )
    config = read_document(real.repository, record)
    tensors = [entry.bytes for entry in real.files if entry.path.endswith(".safetensors")]
    expected = parameters(config).total * BYTES_PER_PARAMETER[config.dtype]
    # The rest are the headers of the files, which name each tensor.
    assert 0 < sum(tensors) - expected < 100_000 * len(tensors)


def test_the_digest_of_weights_does_not_depend_on_the_order_of_their_files(tmp_path: Path) -> None:
    files = [{"path": p, "bytes": 1, "sha256": p * 64} for p in ("a", "b")]
    digests = set()
    for order in (files, files[::-1]):
        file = tmp_path / "manifest.json"
        file.write_text(json.dumps(manifest(files=order)))
        real = read_manifest(file, repository="org/model", revision="1" * 40)
        digests.add(real.digest)
    assert len(digests) == 1


def test_a_manifest_that_lists_a_file_twice_is_refused(tmp_path: Path) -> None:
    files = manifest()["files"] * 2
    assert "lists config.json twice" in read(tmp_path, manifest(files=files))


def test_a_manifest_without_files_is_refused(tmp_path: Path) -> None:
    assert "is incomplete at files" in read(tmp_path, manifest(files=[]))


def test_a_manifest_whose_path_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    files = [{"path": "../etc/passwd", "bytes": 1, "sha256": "0" * 64}]
    assert "is incomplete at files.0.path" in read(tmp_path, manifest(files=files))


@pytest.mark.parametrize("path", ["/a", "a//b", "./a", "a/.", "a/../b", "a/", "", "a\\b", "a\0b"])
def test_a_manifest_whose_path_is_none_below_the_folder_is_refused(
    tmp_path: Path, path: str
) -> None:
    files = [{"path": path, "bytes": 1, "sha256": "0" * 64}]
    assert "is incomplete at files.0.path" in read(tmp_path, manifest(files=files))


def test_a_manifest_may_list_any_name_that_is_one(tmp_path: Path) -> None:
    names = ["a b.json", "a+b", "..a", "a..", ".hidden/x", "ä.txt"]
    files = [{"path": name, "bytes": 1, "sha256": "0" * 64} for name in names]
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(manifest(files=files)))
    real = read_manifest(file, repository="org/model", revision="1" * 40)
    assert [one.path for one in real.files] == names


def test_a_manifest_that_lists_a_folder_as_a_file_is_refused(tmp_path: Path) -> None:
    files = [{"path": path, "bytes": 1, "sha256": "0" * 64} for path in ("a/b", "a")]
    assert "lists a as a file and a folder" in read(tmp_path, manifest(files=files))


def test_a_manifest_with_a_short_sum_is_refused(tmp_path: Path) -> None:
    files = [{"path": "config.json", "bytes": 1, "sha256": "abc"}]
    assert "is incomplete at files.0.sha256" in read(tmp_path, manifest(files=files))


def test_a_lock_with_a_malformed_digest_is_refused_at_its_line(tmp_path: Path) -> None:
    entry = f"  - {{repository: r, tag: t, digest: {DIGEST}0, source: s, read_on: 2026-01-01}}\n"
    (tmp_path / "images.lock").write_text(f"images:\n{entry}")
    with pytest.raises(ConfigError, match=r"images.lock:2: images\[0\].digest: is refused"):
        read_lock(tmp_path)


def test_a_tag_locked_twice_is_refused(tmp_path: Path) -> None:
    entry = f"  - {{repository: r, tag: t, digest: {DIGEST}, source: s, read_on: 2026-01-01}}\n"
    (tmp_path / "images.lock").write_text(f"images:\n{entry}{entry}")
    with pytest.raises(ConfigError, match=r"images.lock:3: images\[1\]: r:t is locked twice"):
        read_lock(tmp_path)


def test_every_locked_digest_says_where_it_was_read() -> None:
    lock = read_lock(STACKS)
    assert {image.repository for image in lock.images} >= {"docker.io/envoyproxy/envoy"}
    assert all(image.source and image.read_on for image in lock.images)
