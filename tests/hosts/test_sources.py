"""What decides a run is in its digest, and what only shows it is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tokenworks.hosts.sources import CHECKOUT, run_sources, sources_digest


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of this checkout that a digest could be over, somewhere else."""
    skipped = shutil.ignore_patterns("__pycache__")
    for folder in ("ansible", "templates/hosts", "tokenworks"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=skipped)
    return tmp_path


def test_a_digest_is_the_same_wherever_the_checkout_lies(checkout: Path) -> None:
    assert sources_digest(checkout) == sources_digest(CHECKOUT)


def test_every_file_that_decides_a_run_changes_the_digest(checkout: Path) -> None:
    digests = [sources_digest(checkout)]
    sources = run_sources(checkout)
    for file in sources:
        file.write_bytes(file.read_bytes() + b"\n")
        digests.append(sources_digest(checkout))
    assert len(set(digests)) == len(sources) + 1


@pytest.mark.parametrize(
    "file",
    [
        "ansible/prepare.yml",
        "ansible/tasks/drain.yml",
        "ansible/roles/base/tasks/install.yml",
        "ansible/library/host_packages.py",
        "ansible/module_utils/host_gpu.py",
        "templates/hosts/host_checks.py",
        "templates/hosts/containerd.toml.j2",
        "templates/hosts/preferences.j2",
        "tokenworks/hosts/changes.py",
        "tokenworks/hosts/files.py",
        "tokenworks/hosts/judged.py",
        "tokenworks/hosts/preflight.py",
        "tokenworks/hosts/settings.py",
        "tokenworks/hosts/verification.py",
        "tokenworks/facts/gpu_drivers.py",
        "tokenworks/templating.py",
    ],
)
def test_playbooks_templates_and_the_code_that_plans_decide_a_run(file: str) -> None:
    assert CHECKOUT / file in run_sources(CHECKOUT)


@pytest.mark.parametrize("file", ["tokenworks/hosts/progress.py", "tokenworks/report/hosts.py"])
def test_what_only_shows_a_run_brings_no_machine_down(file: str) -> None:
    assert (CHECKOUT / file).exists()
    assert CHECKOUT / file not in run_sources(CHECKOUT)


def test_a_file_under_another_name_is_another_content(checkout: Path) -> None:
    before = sources_digest(checkout)
    (checkout / "ansible" / "verify.yml").rename(checkout / "ansible" / "proof.yml")
    assert sources_digest(checkout) != before


def test_what_python_leaves_behind_changes_nothing(checkout: Path) -> None:
    before = sources_digest(checkout)
    (checkout / "ansible" / "library" / "__pycache__").mkdir()
    (checkout / "ansible" / "library" / "__pycache__" / "host_state.pyc").write_bytes(b"1")
    assert sources_digest(checkout) == before
