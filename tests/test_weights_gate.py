"""The weights gate, run as the engine's init container runs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.planning import plan_environment
from tokenworks.render import weights_gate_files
from tokenworks.templating import TEMPLATES
from tokenworks.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]

CONTENT = {
    "config.json": b"{}",
    "model-00001.safetensors": b"weights" * 4096,
    "tokenizer/vocab.json": b"[]",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with exactly the files of the manifest beside it."""
    weights = tmp_path / "weights"
    for name, content in CONTENT.items():
        file = weights / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return weights


def gate(folder: Path) -> subprocess.CompletedProcess[str]:
    files = [
        {"path": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in CONTENT.items()
    ]
    manifest = folder.parent / "manifest.json"
    manifest.write_text(json.dumps({"files": files}))
    return subprocess.run(
        [sys.executable, TEMPLATES / "weights" / "verify.py", manifest, folder, "2"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_weights_as_listed_open_the_gate(folder: Path) -> None:
    done = gate(folder)
    assert done.returncode == 0
    assert done.stdout.count(": as listed") == len(CONTENT)
    assert done.stderr == ""


def truncate(folder: Path) -> None:
    (folder / "model-00001.safetensors").write_bytes(CONTENT["model-00001.safetensors"][:-1])


def change(folder: Path) -> None:
    changed = bytearray(CONTENT["model-00001.safetensors"])
    changed[1000] ^= 1
    (folder / "model-00001.safetensors").write_bytes(bytes(changed))


def lose(folder: Path) -> None:
    (folder / "tokenizer" / "vocab.json").unlink()


def add(folder: Path) -> None:
    (folder / "model-00002.safetensors").write_bytes(b"more")


def empty(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (truncate, "model-00001.safetensors: has 28671 bytes, listed are 28672"),
        (change, "model-00001.safetensors: has sum"),
        (lose, "tokenizer/vocab.json: is missing"),
        (add, "model-00002.safetensors: is not in the manifest"),
        (empty, "config.json: is missing"),
    ],
)
def test_any_other_weights_keep_the_gate_shut_and_are_named(
    folder: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(folder)
    done = gate(folder)
    assert done.returncode == 1
    assert f"refused: {said}" in done.stderr
    assert "publish the revision again" in done.stderr


def test_a_folder_that_is_not_there_keeps_the_gate_shut(folder: Path) -> None:
    done = gate(folder / "none")
    assert done.returncode == 1


def test_a_broken_link_keeps_the_gate_shut(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(folder / "gone")
    done = gate(folder)
    assert done.returncode == 1
    assert "refused: config.json: is a link, not a file" in done.stderr


def test_a_link_to_the_right_content_keeps_the_gate_shut(folder: Path) -> None:
    (folder / "config.json").rename(folder.parent / "elsewhere")
    (folder / "config.json").symlink_to(folder.parent / "elsewhere")
    done = gate(folder)
    assert done.returncode == 1
    assert "refused: config.json: is a link, not a file" in done.stderr


def test_the_gate_reads_the_manifest_that_is_rendered_for_it(tmp_path: Path) -> None:
    (model, _) = plan_environment(Workspace(ROOT), "local").models
    files = (("config.json", 2, "0" * 64),)
    for name, text in weights_gate_files(replace(model.weights, files=files)).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_bytes(b"{}")
    arguments = [tmp_path / name for name in ("verify.py", "manifest.json", "weights")]
    done = subprocess.run(
        [sys.executable, *arguments, "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "config.json: has sum" in done.stderr
