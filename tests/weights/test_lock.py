"""Manifests from a hub that really answers, and from folders: what engines need, summed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.weights.source_server import Fault, SourceServer, serving
from tests.weights.tool import Volume, made_up, manifest_of
from tokenworks.cli import app
from tokenworks.environment.weights import WeightFile, read_manifest
from tokenworks.errors import ConfigError, OperationError
from tokenworks.operations.weights import LockedWeights, WeightsRequest, lock_weights, manifest_text
from tokenworks.weights.differences import differences
from tokenworks.workspace import Workspace

COMMIT = "0123456789abcdef" * 2 + "01234567"
REPOSITORY = "org/Tiny_Model"
TODAY = date(2026, 11, 30)
KEPT = {
    "config.json": b"{}",
    "model.safetensors": b"tensors" * 1000,
    "tokenizer.json": b"[]",
    "LICENSE": b"free",
}
LEFT = {
    "README.md": b"words",
    "pytorch_model.bin": b"pickled",
    "original/model.safetensors": b"the same again",
}


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()


def entry(path: str, content: bytes) -> dict[str, Any]:
    """An entry of a listing, as the hub writes it: large files by their pointers."""
    if path.endswith((".safetensors", ".bin")):
        lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return {"type": "file", "oid": "5" * 40, "size": 134, "path": path, "lfs": lfs}
    size = len(content)
    return {"type": "file", "oid": git_sha1(content), "size": size, "path": path}


@pytest.fixture
def hub() -> Iterator[SourceServer]:
    """A hub with one repository, whose listing has two pages."""
    files = KEPT | LEFT
    with serving({f"{REPOSITORY}/resolve/{COMMIT}/{path}": c for path, c in files.items()}) as made:
        entries = [entry(path, content) for path, content in files.items()]
        tree = f"api/models/{REPOSITORY}/tree/{COMMIT}"
        first = [
            {"type": "directory", "oid": "6" * 40, "size": 0, "path": "original"},
            *entries[:3],
        ]
        following = f'<{made.url}{tree}?recursive=true&cursor=x>; rel="next"'
        made.faults[f"{tree}?recursive=true"] = [
            Fault(content=json.dumps(first).encode(), headers={"Link": following})
        ] * 9
        made.files[f"{tree}?recursive=true&cursor=x"] = json.dumps(entries[3:]).encode()
        made.files[f"api/models/{REPOSITORY}/revision/main"] = json.dumps({"sha": COMMIT}).encode()
        yield made


def lock(
    folder: Path, hub: SourceServer, revision: str = COMMIT, *, verify: bool = False, **more: Any
) -> LockedWeights:
    asked = WeightsRequest(repository=REPOSITORY, revision=revision, hub=hub.url[:-1], **more)
    return lock_weights(Workspace(folder), asked, None, verify=verify, today=TODAY)


def test_what_engines_need_is_listed_with_size_and_sum(tmp_path: Path, hub: SourceServer) -> None:
    done = lock(tmp_path, hub)
    assert done.file == tmp_path / "stacks" / "weights" / "tiny-model.json"
    real = read_manifest(done.file, repository=REPOSITORY, revision=COMMIT)
    assert [one.model_dump() for one in real.files] == sorted(
        manifest_of(KEPT), key=lambda one: one["path"]
    )
    assert done.left_out == tuple(sorted(LEFT))
    assert real.source == f"{hub.url}{REPOSITORY}/tree/{COMMIT} (read 2026-11-30)"


def test_sums_that_the_hub_tells_cost_no_download(tmp_path: Path, hub: SourceServer) -> None:
    lock(tmp_path, hub)
    fetched = {one.path.rpartition("/")[2] for one in hub.asked if "/resolve/" in one.path}
    assert fetched == {"config.json", "tokenizer.json", "LICENSE"}


def test_a_branch_becomes_the_commit_it_means_now(tmp_path: Path, hub: SourceServer) -> None:
    assert lock(tmp_path, hub, "main").manifest.revision == COMMIT


def test_other_files_are_taken_when_they_are_named(tmp_path: Path, hub: SourceServer) -> None:
    done = lock(tmp_path, hub, include=("original/*", "config.json"))
    assert [one.path for one in done.manifest.files] == [
        "config.json",
        "original/model.safetensors",
    ]


def test_a_file_that_is_not_the_listed_one_is_refused(tmp_path: Path, hub: SourceServer) -> None:
    hub.files[f"{REPOSITORY}/resolve/{COMMIT}/config.json"] = b"[]"
    with pytest.raises(OperationError, match=r"config\.json is not the file that it lists"):
        lock(tmp_path, hub)
    assert not (tmp_path / "stacks" / "weights" / "tiny-model.json").exists()


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "token"), (403, "licence"), (404, "correct repository"), (503, "try again later")],
)
def test_a_hub_that_refuses_is_told_with_what_to_do(
    tmp_path: Path, hub: SourceServer, status: int, remedy: str
) -> None:
    hub.every = Fault(status=status)
    hub.faults.clear()
    with pytest.raises(OperationError, match=rf"answers {status}; .*{remedy}"):
        lock(tmp_path, hub)


def test_a_listing_never_leads_to_another_server(tmp_path: Path, hub: SourceServer) -> None:
    with serving({}) as other:
        tree = f"api/models/{REPOSITORY}/tree/{COMMIT}?recursive=true"
        hub.faults[tree] = [Fault(content=b"[]", headers={"Link": f'<{other.url}x>; rel="next"'})]
        with pytest.raises(OperationError, match="its next page is elsewhere"):
            lock(tmp_path, hub)
        assert other.asked == []


def test_a_token_is_not_sent_without_tls(tmp_path: Path, hub: SourceServer) -> None:
    (tmp_path / "token").write_text("hf_x")
    with pytest.raises(ConfigError, match="would see the token without TLS"):
        lock(tmp_path, hub, token_file=tmp_path / "token")
    assert hub.asked == []


def test_a_repository_without_safetensors_is_refused(tmp_path: Path, hub: SourceServer) -> None:
    with pytest.raises(OperationError, match="holds no safetensors"):
        lock(tmp_path, hub, include=("*.bin",))


def test_a_folder_gives_the_same_manifest_as_its_hub(tmp_path: Path, hub: SourceServer) -> None:
    folder = tmp_path / "files"
    for path, content in (KEPT | LEFT | {".git/config": b"", ".cache/x.json": b""}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    asked = WeightsRequest(repository=REPOSITORY, revision=COMMIT, hub="https://h", folder=folder)
    done = lock_weights(Workspace(tmp_path), asked, None, verify=False, today=TODAY)
    assert done.manifest.files == lock(tmp_path, hub).manifest.files
    assert done.left_out == tuple(sorted(LEFT))


def test_a_folder_knows_no_branches(tmp_path: Path) -> None:
    asked = WeightsRequest(repository="o/n", revision="main", hub="https://h", folder=tmp_path)
    with pytest.raises(ConfigError, match="main is not known to a folder"):
        lock_weights(Workspace(tmp_path), asked, None, verify=False, today=TODAY)


def test_a_committed_manifest_is_made_anew_byte_by_byte(tmp_path: Path) -> None:
    stacks = Path(__file__).resolve().parents[2] / "stacks" / "weights"
    for file in stacks.glob("*.json"):
        text = file.read_text("utf-8")
        head = json.loads(text)
        real = read_manifest(file, repository=head["repository"], revision=head["revision"])
        assert manifest_text(real) == text, file.name


def test_a_changed_source_is_told_file_by_file(
    tmp_path: Path, hub: SourceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lock(tmp_path, hub)
    assert lock(tmp_path, hub, verify=True).differences == ()
    changed = json.loads(done.file.read_text())
    changed["files"][1]["sha256"] = "0" * 64
    del changed["files"][2]
    done.file.write_text(json.dumps(changed))
    found = lock(tmp_path, hub, verify=True).differences
    assert [one.path for one in found] == ["config.json", "model.safetensors"]
    assert found[1].listed == "is not there"
    assert json.loads(done.file.read_text()) == changed


def test_nothing_to_verify_is_an_error_with_the_command(tmp_path: Path, hub: SourceServer) -> None:
    command = rf"make it with `tokenworks lock weights {REPOSITORY} {COMMIT}`"
    with pytest.raises(ConfigError, match=rf"tiny-model\.json: does not exist; {command}"):
        lock(tmp_path, hub, verify=True)


def test_differences_are_none_between_equals() -> None:
    files = [WeightFile(**one) for one in manifest_of(KEPT)]
    assert list(differences(files, reversed(files))) == []


def test_the_command_writes_verifies_and_refuses(tmp_path: Path, hub: SourceServer) -> None:
    file = tmp_path / "manifest.json"
    words = ["lock", "weights", REPOSITORY, "main", "--hub", hub.url, "--out", str(file)]
    written = CliRunner().invoke(app, words)
    assert written.exit_code == 0, written.output
    assert f"written: {file}, 4 files of 0.0 GB at {COMMIT}" in written.output
    assert "left out, name them with --include: README.md" in written.output
    assert CliRunner().invoke(app, [*words, "--verify"]).exit_code == 0
    file.write_text(file.read_text().replace(hashlib.sha256(b"[]").hexdigest(), "0" * 64))
    again = CliRunner().invoke(app, [*words, "--verify"])
    assert again.exit_code == 1
    assert "tokenizer.json" in again.output
    assert CliRunner().invoke(app, ["lock", "weights", "nobody", "main"]).exit_code == 1


def test_a_volume_can_be_filled_by_a_manifest_that_was_locked(
    tmp_path: Path, hub: SourceServer
) -> None:
    done = lock(tmp_path, hub)
    volume = Volume(tmp_path, KEPT, entries=[one.model_dump() for one in done.manifest.files])
    filled = volume.run({"url": f"{hub.url}{REPOSITORY}/resolve/{COMMIT}/"})
    assert filled.returncode == 0, filled.stderr
    assert volume.state() == KEPT
    assert made_up(1) != KEPT
